//! TLS in front of the embedded DynamoDB, and the authorities that a function is told to trust.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::{Error, io};

/// RSA, as AWS's own certificates are. For nobody but these tests.
const CHAIN: &str = include_str!("../../tests/fixtures/tls/rsa/cert.pem");
const KEY: &str = include_str!("../../tests/fixtures/tls/rsa/key.pem");
const AUTHORITY: &str = include_str!("../../tests/fixtures/tls/rsa/ca.pem");

/// Where distributions keep the authorities that they trust.
/// About as many as Lambda's own image has.
const MOST: usize = 140;

const BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Speaks TLS with whoever comes, and passes on what they say.
#[derive(Debug)]
pub(crate) struct Tls {
    port: u16,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Tls {
    pub(crate) async fn start(upstream: String) -> Result<Self, Error> {
        let acceptor = TlsAcceptor::from(Arc::new(config()?));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(io("bind a port for TLS"))?;
        let port = listener.local_addr().map_err(io("read the port"))?.port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
                tokio::spawn(async move {
                    let (Ok(mut near), Ok(mut far)) = (
                        acceptor.accept(stream).await,
                        TcpStream::connect(&upstream).await,
                    ) else {
                        return;
                    };
                    // Ends when either side hangs up, politely or not.
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Ok(Self {
            port,
            connections,
            serving,
        })
    }

    /// The certificate is for this name.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// How many connections it was asked for.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn config() -> Result<ServerConfig, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::Tls(error.to_string());
    let chain = CertificateDer::pem_slice_iter(CHAIN.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| refused(&error))?;
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).map_err(|error| refused(&error))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| refused(&error))
}

/// Writes what a function trusts: ours alone.
pub(crate) fn write_authority(file: &Path) -> Result<(), Error> {
    std::fs::write(file, AUTHORITY).map_err(io(format!("write {}", file.display())))
}

/// Writes what a function trusts: every authority that this machine does, and ours. Answers how many they are.
pub(crate) fn write_authorities(file: &Path) -> Result<usize, Error> {
    let usual = BUNDLES
        .iter()
        .find_map(|bundle| std::fs::read_to_string(bundle).ok())
        .unwrap_or_default();
    // Machines trust more or fewer, and each is work.
    let end = "-----END CERTIFICATE-----";
    let mut usual: Vec<&str> = usual.split_inclusive(end).take(MOST).collect();
    usual.retain(|part| part.contains(end));
    let all = format!("{}\n{AUTHORITY}", usual.concat());
    std::fs::write(file, &all).map_err(io(format!("write {}", file.display())))?;
    Ok(all.matches("-----BEGIN CERTIFICATE-----").count())
}
