//! Addresses, and the services at them.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Guard;

/// An address that nobody serves yet. Requests to it wait.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    socket: TcpListener,
}

impl Listener {
    /// Binds a port of 127.0.0.1; 0 takes a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn bind(port: u16) -> io::Result<Self> {
        Self::bind_at((Ipv4Addr::LOCALHOST, port).into()).await
    }

    /// Binds any address of this machine.
    ///
    /// # Errors
    /// When this machine has no such address, or the port is taken there.
    pub async fn bind_at(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { address, socket })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The socket, for what brings a server of its own.
    #[must_use]
    pub fn into_socket(self) -> TcpListener {
        self.socket
    }

    /// Serves these routes, to requests that the guard lets through. The guard refuses others before their bodies are read.
    #[must_use]
    pub fn serve(self, routes: Router, guard: Guard) -> Server {
        let mut server = Server {
            address: self.address,
            service: Service { routes, guard },
            accepting: JoinSet::new(),
        };
        server.accept(self.socket);
        server
    }
}

/// A service that runs. Dropping it closes its ports and every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    service: Service,
    accepting: JoinSet<()>,
}

impl Server {
    /// Where it listened first.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listens at the same port of `ip` too, for clients that cannot reach 127.0.0.1, such as a container.
    ///
    /// # Errors
    /// When this machine has no such address, or the port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> io::Result<()> {
        let also = Listener::bind_at((ip, self.address.port()).into()).await?;
        self.accept(also.socket);
        Ok(())
    }

    fn accept(&mut self, socket: TcpListener) {
        self.accepting.spawn(accept(socket, self.service.clone()));
    }
}

/// The connection of a request, in the request's extensions: a service may end it without a response.
#[derive(Clone, Debug)]
pub struct Connection(mpsc::Sender<End>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Reset,
}

impl Connection {
    /// Closes the connection (FIN) without a byte more. It never returns.
    pub async fn close(&self) -> Response {
        self.end(End::Close).await
    }

    /// Resets the connection (RST). It never returns.
    pub async fn reset(&self) -> Response {
        self.end(End::Reset).await
    }

    async fn end(&self, how: End) -> Response {
        // Full means that it is about to end already.
        let _ = self.0.try_send(how);
        std::future::pending().await
    }
}

#[derive(Clone, Debug)]
struct Service {
    routes: Router,
    guard: Guard,
}

impl Service {
    async fn answer(
        self,
        mut request: Request<Incoming>,
        connection: Connection,
    ) -> Result<Response, Infallible> {
        let refused = self.guard.refuse(request.uri().path(), request.headers());
        if let Some(refused) = refused {
            return Ok(refused);
        }
        request.extensions_mut().insert(connection);
        TowerToHyperService::new(self.routes).call(request).await
    }
}

async fn accept(socket: TcpListener, service: Service) {
    // The set lives in this task, so aborting the task closes the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, service.clone()));
                }
                Err(error) => tracing::warn!(%error, "could not accept a connection"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, service: Service) {
    // Without it, the small writes of a keep-alive connection wait for the peer's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let (end, mut ended) = mpsc::channel(1);
    let answer = service_fn(move |request| {
        let service = service.clone();
        service.answer(request, Connection(end.clone()))
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        // An error is a client that disconnected, or a body that the service has cut off. Neither needs a log line.
        _ = &mut connection => {}
        end = ended.recv() => if end == Some(End::Reset) {
            // Closing a socket that lingers for zero seconds sends RST instead of FIN.
            let _ = connection.into_parts().io.into_inner().set_zero_linger();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use axum::extract::Extension;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{Place, Site};

    fn guard() -> Guard {
        Guard {
            hosts: &["localhost"],
            site: Site::NoPage,
            secret: "sesame".to_owned(),
            places: vec![Place::Header("x-secret")],
            advice: "its secret",
        }
    }

    async fn served() -> Server {
        let close = |Extension(it): Extension<Connection>| async move { it.close().await };
        let reset = |Extension(it): Extension<Connection>| async move { it.reset().await };
        let routes = Router::new()
            .route("/echo", post(|body: String| async { body }))
            .route("/close", get(close))
            .route("/reset", get(reset));
        Listener::bind(0).await.unwrap().serve(routes, guard())
    }

    async fn send(server: &Server, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let head = head.replace('\n', "\r\n") + "\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// The first bytes of the response: its version and status.
    async fn status(stream: &mut TcpStream) -> String {
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        String::from_utf8(status.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn strangers_are_refused_before_the_body() {
        let server = served().await;
        let own = "POST /echo HTTP/1.1\nhost: localhost\nx-secret: sesame\ncontent-length: 1000000";
        for stranger in [
            own.replace("localhost", "example.org"),
            format!("{own}\norigin: http://example.org"),
            own.replace("sesame", "sesam"),
            own.replace("\nx-secret: sesame", ""),
        ] {
            let mut stream = send(&server, &stranger).await;
            assert_eq!(status(&mut stream).await, "HTTP/1.1 403", "{stranger}");
        }
        let mut stream = send(&server, own).await;
        let body = "a".repeat(1_000_000);
        stream.write_all(body.as_bytes()).await.unwrap();
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200");
    }

    #[tokio::test]
    async fn requests_wait_for_the_service() {
        let listener = Listener::bind(0).await.unwrap();
        let mut early = TcpStream::connect(listener.address()).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nx-secret: sesame\r\n\r\n";
        early.write_all(request).await.unwrap();
        let _server = listener.serve(Router::new().route("/", get(|| async {})), guard());
        assert_eq!(status(&mut early).await, "HTTP/1.1 200");
    }

    #[tokio::test]
    async fn a_dropped_server_closes_everything() {
        let server = served().await;
        let address = server.address();
        let mut idle = TcpStream::connect(address).await.unwrap();
        drop(server);
        assert_eq!(idle.read(&mut [0]).await.unwrap_or_default(), 0);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_connection_ends_without_a_response() {
        let server = served().await;
        for (path, kind) in [
            ("/close", ErrorKind::UnexpectedEof),
            ("/reset", ErrorKind::ConnectionReset),
        ] {
            let head = format!("GET {path} HTTP/1.1\nhost: localhost\nx-secret: sesame");
            let mut stream = send(&server, &head).await;
            assert_eq!(stream.read_u8().await.unwrap_err().kind(), kind, "{path}");
        }
    }
}
