//! A connection that is no longer one of HTTP: bytes both ways, untouched, until one side ends, nothing passes for too long,
//! or its origin is disabled (HP-181).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow_prober::live::Reader;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

/// Bytes that are read at a time, each way.
const BUFFER_BYTES: usize = 16 * 1024;
/// How often the origin is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long a tunnel may last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub idle: Duration,
    pub time_max: Duration,
    pub drain: Duration,
}

/// Passes bytes between the two. `origin` is the number of the origin in its group. Returns once either has ended.
pub(crate) async fn run(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    origin: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bounds: Bounds,
    mut group: Reader,
    origin_id: u32,
) {
    let began = Instant::now();
    let last = Last::new(began);
    let (mut client_read, mut client_write) = tokio::io::split(client);
    let (mut origin_read, mut origin_write) = tokio::io::split(origin);
    let up = pass(&mut client_read, &mut origin_write, &last);
    let down = pass(&mut origin_read, &mut client_write, &last);
    let watch = async {
        let mut disabled_since: Option<Instant> = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let is_enabled = !group.live().is_gone() && {
                let views = group.current().snapshot.origins();
                views
                    .iter()
                    .any(|view| view.id == origin_id && view.is_enabled)
            };
            disabled_since = match (is_enabled, disabled_since) {
                (true, _) => None,
                (false, since) => Some(since.unwrap_or_else(Instant::now)),
            };
            let is_drained = disabled_since.is_some_and(|since| since.elapsed() >= bounds.drain);
            if is_drained || last.elapsed() >= bounds.idle || began.elapsed() >= bounds.time_max {
                return;
            }
        }
    };
    // One side may have ended what it says and still listen.
    let both = async { tokio::join!(up, down) };
    tokio::select! {
        _ = both => {}
        () = watch => {}
    }
}

/// When something passed last.
struct Last {
    began: Instant,
    millis: AtomicU64,
}

impl Last {
    const fn new(began: Instant) -> Self {
        Self {
            began,
            millis: AtomicU64::new(0),
        }
    }

    fn note(&self) {
        let now = self.began.elapsed().as_millis() as u64;
        self.millis.store(now, Ordering::Relaxed);
    }

    fn elapsed(&self) -> Duration {
        let last = Duration::from_millis(self.millis.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(last)
    }
}

async fn pass(
    read: &mut (impl AsyncRead + Unpin),
    write: &mut (impl AsyncWrite + Unpin),
    last: &Last,
) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = read.read(&mut buffer).await?;
        last.note();
        if length == 0 {
            return write.shutdown().await;
        }
        write
            .write_all(buffer.get(..length).unwrap_or_default())
            .await?;
        write.flush().await?;
    }
}
