//! Reads the body of a request within bounds of size and time, and lets a refused one run out.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, HeaderMap};
use http_body_util::BodyExt;
use hyper::body::Body;

/// Bytes of a refused body that are read and thrown away: a client that writes everything before it reads would lose the
/// answer to a connection that is reset.
const DISCARDED_BYTES_MAX: usize = 4 << 20;
/// How long they are read.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// What a body is coded in (`gzip`), if in anything: bodies are taken as they are only.
pub fn coding(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    let codings = values.iter().flat_map(|value| value.split(','));
    let codings: Vec<&str> = codings
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
        .collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is larger than allowed. Nothing beyond the bound was read.
    TooLarge,
    /// It did not come in time.
    TimedOut,
    /// The connection broke.
    Broken,
    /// Its chunks cannot be read, or what stands between them is too much.
    Unframed,
}

impl BodyError {
    /// What an error of the connection means: the framing's are those of data, and come from some layers below.
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut layer = Some(error);
        while let Some(error) = layer {
            let kind = error.downcast_ref().map(io::Error::kind);
            if let Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) = kind {
                return Self::Unframed;
            }
            layer = error.source();
        }
        Self::Broken
    }
}

/// Reads all of `body`. One that comes in one piece is not copied.
pub async fn read<B>(body: &mut B, bytes_max: usize, time: Duration) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    match tokio::time::timeout(time, read_all(body, bytes_max)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TimedOut),
    }
}

async fn read_all<B>(body: &mut B, bytes_max: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| BodyError::of(&error))?.into_data() else {
            continue;
        };
        len += data.len();
        if len > bytes_max {
            return Err(BodyError::TooLarge);
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            // What is announced is within the bound; what is not is made room for as it comes.
            let announced = usize::try_from(body.size_hint().lower()).unwrap_or_default();
            rest.reserve(len + announced.min(bytes_max));
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// Lets the rest of a body run out while its refusal is already on its way. Bounded; then the connection is closed.
pub fn discard<B>(mut body: B)
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    if Pin::new(&mut body).is_end_stream() {
        return;
    }
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
        let mut len = 0;
        while let Some(Ok(frame)) = body.frame().await {
            len += frame.data_ref().map_or(0, Bytes::len);
            if len > DISCARDED_BYTES_MAX {
                break;
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use http_body_util::Full;
    use hyper::body::Frame;

    use super::*;

    const TIME: Duration = Duration::from_secs(1);

    /// A body that does not say how long it is.
    struct Pieces(VecDeque<&'static str>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(
                self.0
                    .pop_front()
                    .map(|piece| Ok(Frame::data(piece.into()))),
            )
        }
    }

    /// A body that never comes.
    struct Nothing;

    impl Body for Nothing {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_of_one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"piece");
        let read = read(&mut Full::new(bytes.clone()), 5, TIME).await.unwrap();
        assert_eq!(read.as_ptr(), bytes.as_ptr());
    }

    #[tokio::test]
    async fn the_bound_is_exact_with_and_without_announcement() {
        let announced = || Full::new(Bytes::from_static(b"12345"));
        assert_eq!(read(&mut announced(), 5, TIME).await.unwrap(), "12345");
        assert_eq!(
            read(&mut announced(), 4, TIME).await,
            Err(BodyError::TooLarge)
        );
        let pieces = || Pieces(["12345", "", "67", "890"].into());
        assert_eq!(read(&mut pieces(), 10, TIME).await.unwrap(), "1234567890");
        assert_eq!(read(&mut pieces(), 9, TIME).await, Err(BodyError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        assert_eq!(read(&mut Nothing, 10, TIME).await, Err(BodyError::TimedOut));
    }
}
