//! TLS in front of the table, so that the first answer of a process is counted with the handshake before it.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The authority behind the certificate, which is for `localhost`. Both are made by openssl for this alone.
pub(super) const AUTHORITY: &str = include_str!("../../tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../tls/cert.pem");
const KEY: &[u8] = include_bytes!("../../tls/key.pem");

/// Speaks TLS on a port of its own, and plainly with what is behind.
pub(super) struct Tls {
    port: u16,
    serving: JoinHandle<()>,
}

impl Tls {
    pub(super) async fn before(behind: &str) -> Self {
        let chain = CertificateDer::pem_slice_iter(CERTIFICATE).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config
                    .with_no_client_auth()
                    .with_single_cert(chain.unwrap(), key)
            });
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = behind.trim_start_matches("http://").to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    // A connection that fails shows in the count of requests.
                    if let Ok(mut client) = acceptor.accept(stream).await
                        && let Ok(mut server) = TcpStream::connect(behind).await
                    {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { port, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
