//! Functions reach AWS over TLS, and only whom the machine trusts. Everything else here speaks plain HTTP to them.
//!
//! The certificates are for nobody but these tests, made by openssl: an authority, and what it says of `localhost`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_local::{Options, Outcome, Stack};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What authorities sign with.
const KINDS: [&str; 3] = ["p256", "p384", "rsa"];

fn fixture(kind: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(kind)
        .join(name)
}

const ANSWER: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no such table"}"#;

/// A service behind TLS that has no tables.
struct Service {
    url: String,
    connections: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
    /// How many connections it hangs up on before it serves one.
    hangs_up: Arc<AtomicUsize>,
}

impl Service {
    async fn start(kind: &str, provider: CryptoProvider, version: &'static Version) -> Self {
        let chain = CertificateDer::pem_file_iter(fixture(kind, "cert.pem")).unwrap();
        let chain = chain.collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture(kind, "key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = Self {
            url: format!("https://localhost:{port}"),
            connections: Arc::default(),
            answered: Arc::default(),
            hangs_up: Arc::default(),
        };
        let (connections, answered) = (
            Arc::clone(&service.connections),
            Arc::clone(&service.answered),
        );
        let hangs_up = Arc::clone(&service.hangs_up);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let (acceptor, answered) = (acceptor.clone(), Arc::clone(&answered));
                let hangs_up = Arc::clone(&hangs_up);
                tokio::spawn(async move {
                    // Whoever does not trust us hangs up here.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let one_less = |left: usize| left.checked_sub(1);
                        if hangs_up
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                            .is_err()
                        {
                            serve(stream, &answered).await;
                        }
                    }
                });
            }
        });
        service
    }

    async fn usual() -> Self {
        Self::start("p256", ring::default_provider(), &TLS13).await
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

type Version = SupportedProtocolVersion;

/// One request after the other, for as long as the connection is kept.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answered: &AtomicUsize) {
    loop {
        let mut request = Vec::new();
        while !is_whole(&request) {
            if !matches!(stream.read_buf(&mut request).await, Ok(read) if read > 0) {
                return;
            }
        }
        let length = ANSWER.len();
        let answer =
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{ANSWER}");
        if stream.write_all(answer.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the head and as much of a body as it announces have arrived.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    length.is_some_and(|length| body.len() >= length.trim().parse::<usize>().unwrap())
}

/// A stack whose functions find DynamoDB at `url`, on a machine that trusts `roots`.
async fn stack(url: &str, roots: &Path) -> Stack {
    let mut options = Options::default();
    let roots = roots.display().to_string();
    for (name, value) in [
        ("AWS_ENDPOINT_URL_DYNAMODB", url),
        ("SSL_CERT_FILE", &roots),
    ] {
        let everywhere = options.environment.entry("*".to_owned()).or_default();
        everywhere.insert(name.to_owned(), Some(value.to_owned()));
    }
    Stack::start(options).await.unwrap()
}

/// The name of the error that acquire answers with.
async fn acquire(stack: &Stack) -> Value {
    answer(stack, r#"{"key": "k", "holder": "a", "ttl_seconds": 300}"#).await
}

/// The same of an event for which nothing is asked of DynamoDB.
async fn refuse(stack: &Stack) -> Value {
    answer(stack, "{}").await
}

async fn answer(stack: &Stack, event: &str) -> Value {
    let invocation = stack.functions().invoke("acquire", event).await.unwrap();
    match invocation.outcome {
        Outcome::FunctionError(text) => {
            serde_json::from_str::<Value>(&text).unwrap()["errorType"].take()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_speaks_tls_with_whom_the_machine_trusts() {
    let first = &Service::usual().await;
    let stack = &stack(&first.url, &fixture("p256", "ca.pem")).await;
    for _ in 0..2 {
        // What the service says is understood: there is no table.
        assert_eq!(acquire(stack).await, "Lease.Misconfigured");
    }
    assert_eq!(first.answered(), 2);
    // The handshake is paid for once.
    assert_eq!(first.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_has_its_connection_before_its_first_request() {
    let service = &Service::usual().await;
    let stack = &stack(&service.url, &fixture("p256", "ca.pem")).await;
    let connections = || service.connections.load(Ordering::Relaxed);
    assert_eq!(refuse(stack).await, "Lease.Invalid");
    assert_eq!((connections(), service.answered()), (1, 0));
    assert_eq!(acquire(stack).await, "Lease.Misconfigured");
    assert_eq!((connections(), service.answered()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_gets_over_it_when_that_connection_is_gone() {
    let service = &Service::usual().await;
    service.hangs_up.store(1, Ordering::Relaxed);
    let stack = &stack(&service.url, &fixture("p256", "ca.pem")).await;
    assert_eq!(refuse(stack).await, "Lease.Invalid");
    assert_eq!(acquire(stack).await, "Lease.Misconfigured");
    assert_eq!(service.connections.load(Ordering::Relaxed), 2);
    assert_eq!(service.answered(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_takes_every_version_signature_and_exchange_that_aws_may_offer() {
    for kind in KINDS {
        for version in [&TLS12, &TLS13] {
            for exchange in [ring::kx_group::X25519, ring::kx_group::SECP256R1] {
                let provider = CryptoProvider {
                    kx_groups: vec![exchange],
                    ..ring::default_provider()
                };
                let service = Service::start(kind, provider, version).await;
                let stack = stack(&service.url, &fixture(kind, "ca.pem")).await;
                let error = acquire(&stack).await;
                assert_eq!(
                    error, "Lease.Misconfigured",
                    "{kind} {version:?} {exchange:?}"
                );
                assert_eq!(service.answered(), 1);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_tells_nothing_to_whom_the_machine_does_not_trust() {
    let service = Service::usual().await;
    // No authority at all, one that nobody knows, and another.
    let none = Path::new("none.pem").to_path_buf();
    for roots in [none, fixture("p256", "cert.pem"), fixture("rsa", "ca.pem")] {
        let stack = stack(&service.url, &roots).await;
        assert_eq!(acquire(&stack).await, "Lease.Unavailable");
    }
    // Another name than the certificate's.
    let elsewhere = service.url.replace("localhost", "127.0.0.1");
    let stack = stack(&elsewhere, &fixture("p256", "ca.pem")).await;
    assert_eq!(acquire(&stack).await, "Lease.Unavailable");
    assert_eq!(service.answered(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_does_not_wait_for_a_handshake_that_never_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tried = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&tried);
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            silent.push(stream);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let stack = stack(&url, &fixture("p256", "ca.pem")).await;
    // A sandbox tries it once while it starts, and asks for its event.
    assert_eq!(refuse(&stack).await, "Lease.Invalid");
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    // Long before the function's own time is up, and not before it has asked again.
    assert_eq!(acquire(&stack).await, "Lease.Unavailable");
    assert_eq!(tried.load(Ordering::Relaxed), 4);
}
