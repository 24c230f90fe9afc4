//! Servers on the loopback address, and waiting for what they see. Waits end after 30 s.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_io::http::{Connect, ConnectorOptions, GuardedConnector};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An answer that every group takes.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// How long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server that does with each connection what it was told. Ends when dropped.
pub struct Server {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    _accepting: JoinSet<()>,
}

impl Server {
    /// A server that reads the head of a request, and then hands the connection to `serve`.
    pub async fn answering<S, F>(serve: S) -> Self
    where
        S: Fn(TcpStream, usize) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heads);
        let serve = Arc::new(serve);
        let mut server = Self::raw(move |mut stream, number| {
            let (noted, serve) = (Arc::clone(&noted), Arc::clone(&serve));
            async move {
                let Some(head) = read_head(&mut stream).await else {
                    return;
                };
                noted.lock().unwrap().push(head);
                serve(stream, number).await;
            }
        })
        .await;
        server.heads = heads;
        server
    }

    /// A server that hands each connection to `serve` as it was accepted, with its number.
    pub async fn raw<S, F>(serve: S) -> Self
    where
        S: Fn(TcpStream, usize) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::SeqCst);
                serving.spawn(serve(stream, number));
            }
        });
        Self {
            address,
            accepted,
            heads: Arc::default(),
            _accepting: accepting,
        }
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The heads of the requests that came.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// The head of a request; `None` if the connection ended before.
pub async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.ok()?;
        head.push(byte);
    }
    Some(String::from_utf8(head).unwrap())
}

/// A connector that may go to the loopback address.
pub fn connector() -> Arc<dyn Connect> {
    allowing(&["127.0.0.0/8"])
}

/// A connector that may go to these networks.
pub fn allowing(networks: &[&str]) -> Arc<dyn Connect> {
    let networks = networks.iter().map(|network| network.parse().unwrap());
    Arc::new(GuardedConnector::new(ConnectorOptions {
        allow_networks: networks.collect(),
        ..ConnectorOptions::default()
    }))
}

/// Waits until something is so.
pub async fn until<T>(what: &str, mut is_so: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = is_so().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, asking).await;
    found.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
