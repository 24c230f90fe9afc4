//! The reader of probes' responses (HP-042 to HP-048): pieces of any size give the same as all at once, what has ended stays
//! ended, and a head that it takes is one that httparse takes, with the same status.
#![no_main]

use hedgerow_origin::outcome::{Demands, Met};
use hedgerow_origin::response::ResponseReader;
use hedgerow_origin::settings::Method;
use libfuzzer_sys::fuzz_target;

/// Sizes of pieces, in turn.
const SIZES: usize = 3;
/// The reader takes so many header lines as fit; httparse has to be told how many.
const HEADERS_MAX: usize = 1_400;
/// Bytes of the longest head, as set for a group.
const HEAD_BYTES_MAX: [u32; 2] = [64, 4_096];

fuzz_target!(|data: &[u8]| {
    let Some((control, bytes)) = data.split_at_checked(1 + SIZES) else {
        return;
    };
    let (flags, sizes) = (control[0], &control[1..]);
    let method = if flags & 1 == 0 {
        Method::Head
    } else {
        Method::Get
    };
    let is_clean = flags & 2 == 0;
    let head_bytes_max = HEAD_BYTES_MAX[usize::from(flags >> 2 & 1)];

    let demands = Demands {
        head_bytes_max,
        ..Demands::default()
    };
    let reader = || ResponseReader::new(method, &demands);
    let mut at_once = reader();
    let whole = at_once.feed(bytes).unwrap_or_else(|| at_once.end(is_clean));

    let mut in_pieces = reader();
    let mut rest = bytes;
    let mut ended = None;
    for size in sizes.iter().cycle() {
        let (piece, left) = rest.split_at(
            usize::from(*size)
                .clamp(1, rest.len().max(1))
                .min(rest.len()),
        );
        ended = in_pieces.feed(piece);
        rest = left;
        if ended.is_some() || rest.is_empty() {
            break;
        }
    }
    let met = ended.unwrap_or_else(|| in_pieces.end(is_clean));
    assert_eq!(whole, met, "in pieces of {sizes:?}");
    if let Met::Response(response) = met {
        assert!((100..600).contains(&response.status));
        assert!(response.head_bytes <= head_bytes_max);
        if response.interim == 0 {
            agrees(bytes, response.status, response.head_bytes);
        }
    }
});

/// httparse knows 1.0 and 1.1 only.
fn agrees(bytes: &[u8], status: u16, head_bytes: u32) {
    if !matches!(bytes.get(7), Some(b'0' | b'1')) {
        return;
    }
    let mut headers = vec![httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes);
    assert_eq!(parsed, Ok(httparse::Status::Complete(head_bytes as usize)));
    assert_eq!(response.code, Some(status));
}
