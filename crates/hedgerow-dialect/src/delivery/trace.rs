//! Trace context (ED-141): the trace of the publisher goes on, with a span of our own for each attempt.
//!
//! Source: the W3C recommendation "Trace Context", level 1.

/// The `traceparent` of an attempt for an event that came with `incoming`: the same trace and flags, `span` as the new
/// parent. `None` if `incoming` is none, as a receiver is to ignore it then.
#[must_use]
pub fn next_traceparent(incoming: &str, span: u64) -> Option<String> {
    // All zeros is no span.
    let span = span.max(1);
    let bytes = incoming.as_bytes();
    if bytes.len() < LENGTH || !incoming.is_ascii() {
        return None;
    }
    let (version, trace, parent, flags) = (
        &incoming[..2],
        &incoming[3..35],
        &incoming[36..52],
        &incoming[53..LENGTH],
    );
    let has_hyphens = [2, 35, 52].iter().all(|at| bytes[*at] == b'-');
    let are_hex = [version, trace, parent, flags].into_iter().all(is_hex);
    let is_zero = |hex: &str| hex.bytes().all(|byte| byte == b'0');
    // A later version may have more behind what this one has.
    let ends = match version {
        "00" => bytes.len() == LENGTH,
        _ => bytes.get(LENGTH).is_none_or(|byte| *byte == b'-'),
    };
    if version == "ff" || !has_hyphens || !are_hex || is_zero(trace) || is_zero(parent) || !ends {
        return None;
    }
    // Of the flags of a later version only the one that is known here is passed on.
    let flags = match version {
        "00" => flags,
        _ if u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1) => "01",
        _ => "00",
    };
    Some(format!("00-{trace}-{span:016x}-{flags}"))
}

/// Version, trace id, parent id and flags with hyphens between them.
const LENGTH: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    /// ED-141.
    #[test]
    fn the_trace_goes_on_with_another_span() {
        let rows = [
            (format!("00-{TRACE}-{PARENT}-01"), "01"),
            (format!("00-{TRACE}-{PARENT}-00"), "00"),
            (format!("00-{TRACE}-{PARENT}-03"), "03"),
            (format!("cc-{TRACE}-{PARENT}-01-more-of-it"), "01"),
            (format!("cc-{TRACE}-{PARENT}-fe"), "00"),
        ];
        for (incoming, flags) in rows {
            let expected = format!("00-{TRACE}-00000000000000ab-{flags}");
            assert_eq!(next_traceparent(&incoming, 0xab), Some(expected));
        }
        let first = next_traceparent(&format!("00-{TRACE}-{PARENT}-01"), 0);
        assert_eq!(first, Some(format!("00-{TRACE}-0000000000000001-01")));
    }

    #[test]
    fn what_is_no_trace_is_not_passed_on() {
        let zeros = "0".repeat(32);
        let rows = [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-0"),
            format!("00-{TRACE}-{PARENT}-01-x"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0x-{TRACE}-{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01x"),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00_{TRACE}-{PARENT}-01"),
            format!("00-{TRACE}-{PARENT}-é"),
        ];
        for incoming in rows {
            assert_eq!(next_traceparent(&incoming, 1), None, "{incoming:?}");
        }
    }
}
