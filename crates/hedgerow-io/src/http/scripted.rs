//! A network inside the process, for tests: connections are pipes in memory, and a script stands at their other end.
//!
//! With it a test runs on tokio's paused clock, with no socket and no port. It judges no addresses.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

use super::connect::{Connect, ConnectError, Connecting, Connection};
use super::target::Target;

/// What stands at the other end: it is given the target and the server's end of the pipe, of which it spawns the service,
/// or refuses.
pub type Script = dyn Fn(Target, DuplexStream) -> Result<(), ConnectError> + Send + Sync;

/// How much either side can write before the other reads, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// A [`Connect`] whose connections lead to a [`Script`].
#[derive(Clone)]
pub struct ScriptedNetwork {
    script: Arc<Script>,
}

impl std::fmt::Debug for ScriptedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedNetwork").finish_non_exhaustive()
    }
}

impl ScriptedNetwork {
    /// A network where `script` is called for each connection.
    #[must_use]
    pub fn new(script: Arc<Script>) -> Self {
        Self { script }
    }

    /// A network where every host is an HTTP server that answers as `answer` says, with connections kept alive.
    #[must_use]
    pub fn answering<F, A>(answer: F) -> Self
    where
        F: Fn(Target, Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        Self::new(Arc::new(move |target, stream| {
            let answer = Arc::clone(&answer);
            serve(stream, move |request| answer(target.clone(), request));
            Ok(())
        }))
    }
}

impl Connect for ScriptedNetwork {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            (self.script)(target.clone(), theirs)?;
            Ok(Connection::new(ours))
        })
    }
}

/// Spawns an HTTP/1.1 server at this end of a pipe. It reads each request whole, then answers it; it ends when the
/// other end is dropped.
pub fn serve<F, A>(stream: DuplexStream, answer: F)
where
    F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Bytes>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let response = answer(Request::from_parts(head, body)).await;
            Ok::<_, hyper::Error>(response.map(Full::<Bytes>::new))
        }
    });
    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
}
