//! A server on loopback that does exactly what its script says, and counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hedgerow_io::http::{
    Client, ClientOptions, ConnectorOptions, GuardedConnector, Network, Target,
};
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};

/// Listens until the test's runtime ends.
pub struct Server {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Runs `script` for each connection, which it also gives the connection's number, counting from 1.
    pub async fn start<F, S>(script: F) -> Self
    where
        F: Fn(TcpStream, usize) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(script(stream, number));
            }
        });
        Self { address, accepted }
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn target(&self) -> Target {
        target(&format!("http://{}/", self.address))
    }
}

pub fn target(url: &str) -> Target {
    Target::from_url(&url.parse().unwrap()).unwrap()
}

/// A client that may connect to loopback over IPv4.
pub fn client() -> Client {
    client_allowing(&["127.0.0.0/8"])
}

pub fn client_allowing(networks: &[&str]) -> Client {
    let allow_networks = networks
        .iter()
        .map(|network| network.parse::<Network>().unwrap())
        .collect();
    let options = ConnectorOptions {
        allow_networks,
        ..ConnectorOptions::default()
    };
    Client::new(
        Arc::new(GuardedConnector::new(options)),
        ClientOptions::default(),
    )
}

pub fn request(body: &'static str) -> Request<Bytes> {
    Request::post("/hook?code=1")
        .body(Bytes::from_static(body.as_bytes()))
        .unwrap()
}

/// Reads one request with a `Content-Length`; `None` when the client has closed the connection.
pub async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&request).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length: usize = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, length)| length.parse().unwrap());
        if body.len() >= length {
            return Some(text.to_owned());
        }
    }
}

/// Waits until the other side has closed the connection.
pub async fn wait_for_close(stream: &mut (impl AsyncRead + Unpin)) {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
}
