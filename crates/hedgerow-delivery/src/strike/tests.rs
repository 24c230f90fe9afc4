//! What is struck out, in whatever spelling; and what is left as it was.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

fn without(text: &str, query: &str, is_cut: bool) -> String {
    Secrets::of_endpoint("", &[query], &[]).strike(text, is_cut)
}

#[test]
fn secrets_of_the_query_are_struck_out() {
    let query = "code=s3cr%2Ft-key&v=1&sig=key-of-more";
    let rows = [
        ("all is well", "all is well"),
        ("v=1 is no secret", "v=1 is no secret"),
        (
            "you asked /hook?code=s3cr%2Ft-key&v=1&sig=key-of-more",
            "you asked /hook?***",
        ),
        ("code s3cr%2Ft-key", "code ***"),
        ("code s3cr/t-key, sig key-of-more.", "code ***, sig ***."),
    ];
    for (text, expect) in rows {
        assert_eq!(without(text, query, false), expect);
    }
    assert_eq!(without("no query", "", false), "no query");
    assert_eq!(without("a value alone", "value", false), "a value alone");
}

#[test]
fn a_secret_that_the_cut_went_through_is_struck_out_too() {
    let query = "code=\u{e9}t\u{e9}-secret";
    for (text, expect) in [
        ("you sent \u{e9}t\u{e9}-sec", "you sent ***"),
        ("you sent \u{e9}t\u{fffd}", "you sent ***"),
        ("you sent cod", "you sent ***"),
        ("you sent co", "you sent co"),
        ("you sent it", "you sent it"),
    ] {
        assert_eq!(without(text, query, true), expect);
    }
    assert_eq!(without("you sent cod", query, false), "you sent cod");
    for text in ["in s3cr\\u00", "in s3cr%252", "in s3cr&#x2", "in s3cr%2ft"] {
        assert_eq!(without(text, "code=s3cr%2Ft-key", true), "in ***", "{text}");
    }
}

/// ED-121: however it is spelled.
#[test]
fn spellings_are_struck_out() {
    let query = "code=a%2Fb%2B=c+d&x=1";
    for text in [
        "a%2Fb%2B=c+d",
        "a%2fb%2b%3dc%20d",
        "a%252Fb%252B%3Dc%2Bd",
        "a/b+=c d",
        "a/b+=c+d",
        r"a\/b+=c d",
        r"a\u002fb\u002B\u003Dc d",
        r"a\u{2f}b\x2b=c\u0020d",
        "a&#47;b&#x2b;&equals;c&#32;d",
        "a&#047b+&#X3D;c d",
        "a&amp;#47;b&amp;plus;=c d",
        r"a\\u002fb+=c d",
        r"a\057b\053\075c d",
        "a%u002Fb%u002b=c d",
        "A%2FB%2B%3DC+D",
        "code=a%2Fb%2B=c+d&amp;x=1",
        r"code=a%2Fb%2B=c+d\u0026x=1",
        "612f622b3d632064",
        "612F622B3D632064",
    ] {
        assert_eq!(
            without(&format!("'{text}'"), query, false),
            "'***'",
            "{text}"
        );
    }
}

/// ED-121: a path may be the secret, and is told by the length of a segment.
#[test]
fn long_segments_of_a_path_are_struck_out() {
    let path = "/services/T000/B000/XsecretXsecret%2FXsecret/ending";
    let secrets = Secrets::of_endpoint(path, &[""], &[]);
    for (text, expect) in [
        ("no such hook XsecretXsecret%2FXsecret", "no such hook ***"),
        ("no such hook XsecretXsecret/Xsecret.", "no such hook ***."),
        (
            "/services/T000/B000/XsecretXsecret/Xsecret",
            "/services/T000/B000/***",
        ),
        ("services at the end", "services at the end"),
    ] {
        assert_eq!(secrets.strike(text, false), expect);
    }
    // A log has nothing of the path.
    let struck = secrets.strike(&format!("you asked {path}?"), false);
    assert_eq!(
        Secrets::of_path(path).strike(&struck, false),
        "you asked ***?"
    );
    let short = Secrets::of_endpoint("/PATHSECRET99/hook", &[], &[]);
    assert_eq!(
        short.strike("at /PATHSECRET99/hook", false),
        "at /PATHSECRET99/hook"
    );
}

/// ED-121: a part of a secret gives most of it away.
#[test]
fn parts_of_a_secret_are_struck_out() {
    let secret = "SECRETCANARY+x/9abcdefghijklmnopqrstuvwxyz0123456789";
    let query = format!("code={}&short=1", secret.replace('/', "%2F"));
    for range in [0..30, 0..16, 10..26, 36..52, 20..51] {
        let part = &secret[range];
        for part in [
            part.to_owned(),
            json(part),
            STANDARD.encode(format!("--{part}-")),
        ] {
            let left = without(&format!("[{part}]"), &query, false);
            assert!(
                left.contains(STRUCK_OUT) && left.len() < 12,
                "{part}: {left}"
            );
        }
    }
    let kept = "[SECRETCANARY+x/]";
    assert_eq!(without(kept, &query, false), kept, "15 say little");
}

#[test]
fn base64_of_a_secret_is_struck_out() {
    let query = "code=s3cr%2Ft-key&v=1";
    for inner in [
        "/hook?code=s3cr%2Ft-key&v=1",
        "code=s3cr/t-key",
        r#"{"a":"s3cr\/t-key"}"#,
        "?/hook?code=s3cr&#x2F;t-key",
        "\u{ff}\u{ff}s3cr/t-key\u{ff}",
    ] {
        let standard = STANDARD.encode(inner);
        let lines = standard.as_bytes().chunks(10);
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line)).collect();
        let left = without(&lines.join("\r\n"), query, false);
        assert!(
            !decodes_to(&left.replace("\r\n", ""), "s3cr"),
            "{inner}: {left}"
        );
        for encoded in [STANDARD.encode(inner), URL_SAFE_NO_PAD.encode(inner)] {
            for text in [
                format!("x {encoded}"),
                format!("{{\"u\":\"{}\"}}", json(&encoded)),
            ] {
                let left = without(&text, query, false);
                assert!(left.contains(STRUCK_OUT), "{inner}: {left}");
                assert!(!decodes_to(&left, "s3cr"), "{inner}: {left}");
            }
        }
    }
}

#[test]
fn long_and_crafted_texts_take_no_long_time() {
    let secrets = Secrets::of_endpoint("", &["code=0123456789abcdef%2F%2B%3D&sig=%25%32%35"], &[]);
    for part in [
        "%25",
        "%",
        "\\",
        "&",
        "&amp;",
        "&#",
        "&#0",
        "\\u",
        "\\u{",
        "&#x0000000000",
        "+",
        "%5C",
        "\\u005c",
        "%26amp;",
        "a/",
        "%c3",
        "\u{fffd}",
        "0123456789abcdef%2",
    ] {
        let text = part.repeat((8 << 10) / part.len());
        secrets.strike(&text, true);
    }
}

/// Whether a text, or what base64 in it holds, says something: a reader of its own, that undoes everything again and again.
fn decodes_to(text: &str, wanted: &str) -> bool {
    let runs = text.split(|c| !is_base64(c)).filter(|run| run.len() >= 8);
    let mut inner = runs.flat_map(|run| (0..4).map(|offset| from_base64(&run[offset..])));
    inner.any(|inner| inner.contains(wanted)) || text.contains(wanted)
}

fn percent(text: &str, wants: impl Fn(u8) -> bool, is_lower: bool) -> String {
    let one = |byte: u8| match (wants(byte), is_lower) {
        (false, _) => char::from(byte).to_string(),
        (true, true) => format!("%{byte:02x}"),
        (true, false) => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn json(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('/', r"\/")
}

/// One way to escape a text of ASCII.
#[derive(Debug, Clone, Copy)]
enum Escaping {
    Percent { all: bool, lower: bool },
    Form,
    Json,
    Unicode { all: bool, lower: bool },
    Page,
    Numbers { hexadecimal: bool },
    Base64 { url: bool },
}

impl Escaping {
    fn apply(self, text: &str) -> String {
        let each = |one: &dyn Fn(char) -> String| text.chars().map(one).collect::<String>();
        let is_mark = |c: char| !c.is_ascii_alphanumeric();
        match self {
            Self::Percent { all, lower } => {
                percent(text, |byte| all || !byte.is_ascii_alphanumeric(), lower)
            }
            Self::Form => percent(
                text,
                |byte| !byte.is_ascii_alphanumeric() && byte != b' ',
                false,
            )
            .replace(' ', "+"),
            Self::Json => json(text),
            Self::Unicode { all, lower } => each(&|c| match (all || is_mark(c), lower) {
                (false, _) => c.to_string(),
                (true, true) => format!("\\u{:04x}", u32::from(c)),
                (true, false) => format!("\\u{:04X}", u32::from(c)),
            }),
            Self::Page => each(&|c| match c {
                '&' => "&amp;".to_owned(),
                '<' => "&lt;".to_owned(),
                '>' => "&gt;".to_owned(),
                '"' => "&quot;".to_owned(),
                '\'' => "&#39;".to_owned(),
                '=' => "&equals;".to_owned(),
                c => c.to_string(),
            }),
            Self::Numbers { hexadecimal } => each(&|c| match (is_mark(c), hexadecimal) {
                (false, _) => c.to_string(),
                (true, true) => format!("&#x{:x};", u32::from(c)),
                (true, false) => format!("&#{};", u32::from(c)),
            }),
            Self::Base64 { url: true } => URL_SAFE_NO_PAD.encode(text),
            Self::Base64 { url: false } => STANDARD.encode(text),
        }
    }
}

fn any_escaping() -> impl Strategy<Value = Escaping> {
    prop_oneof![
        (any::<bool>(), any::<bool>()).prop_map(|(all, lower)| Escaping::Percent { all, lower }),
        Just(Escaping::Form),
        Just(Escaping::Json),
        (any::<bool>(), any::<bool>()).prop_map(|(all, lower)| Escaping::Unicode { all, lower }),
        Just(Escaping::Page),
        any::<bool>().prop_map(|hexadecimal| Escaping::Numbers { hexadecimal }),
    ]
}

proptest! {
    /// Three layers of escapes, of which base64 may be the last but one: nothing is left of the secret.
    #[test]
    fn no_composition_of_escapes_hides_a_secret(
        secret in "[!-~]{8,40}".prop_filter("no query", |text| !text.contains(['&', '=', '"', '#', '<', '>', '\\'])),
        before in "[ -~]{0,9}",
        behind in "[ -~]{0,9}",
        of_query in any::<bool>(),
        escapings in proptest::collection::vec(any_escaping(), 0..=3),
        base64 in proptest::option::of(any::<bool>()),
        declared_lower in any::<bool>(),
    ) {
        // As a careful author declares it, and as one who does not care.
        let declared = if of_query {
            secret.clone()
        } else {
            percent(&secret, |byte| !byte.is_ascii_alphanumeric(), declared_lower)
        };
        let query = format!("code={declared}&v=1");
        let mut spelled = format!("[{before}|{declared}|{behind}]");
        for (layer, escaping) in escapings.iter().enumerate() {
            if let Some(url) = base64 && layer + 1 == escapings.len() {
                spelled = Escaping::Base64 { url }.apply(&spelled);
            }
            spelled = escaping.apply(&spelled);
        }
        let text = format!("you sent {spelled}.");
        let left = without(&text, &query, false);
        prop_assert!(left.contains(STRUCK_OUT), "{} left {}", text, left);
        prop_assert_eq!(without(&left, &query, false), left.as_str());
        // All of it is gone, not a part: escaped or not, it would still hold the last characters.
        let last: String = secret.chars().filter(char::is_ascii_alphanumeric).collect();
        if last.len() >= 6 && escapings.len() < 2 && base64.is_none() {
            prop_assert!(!left.contains(&last), "{} left {}", text, left);
        }
    }

    /// What does not hold a secret stays as it is.
    #[test]
    fn ordinary_texts_stay_as_they_are(text in "[ -~\u{e4}\u{4e2d}]{0,200}") {
        let secrets = Secrets::of_endpoint("", &["code=Zq9-Zq8_Zq7.Zq6&sig=%2FxZ%2BqZ%3D%3DxZqZ"], &[]);
        prop_assert_eq!(secrets.strike(&text, false), text.as_str());
    }
}

/// ED-149: the value of a secret header is struck out as a whole, and so is the token behind its scheme.
#[test]
fn secret_headers_are_struck_out() {
    let secrets = Secrets::of_endpoint("", &[], &["Bearer Zq9-canary+token/=".to_owned()]);
    for (text, left) in [
        ("you sent Bearer Zq9-canary+token/=!", "you sent ***!"),
        ("token=Zq9-canary%2Btoken%2F%3D.", "token=***."),
        (r#"{"t":"Zq9-canary+token\/="}"#, r#"{"t":"***"}"#),
        ("WnE5LWNhbmFyeSt0b2tlbi89", "***"),
        ("Bearer nothing", "Bearer nothing"),
    ] {
        assert_eq!(secrets.strike(text, false), left, "{text}");
    }
}
