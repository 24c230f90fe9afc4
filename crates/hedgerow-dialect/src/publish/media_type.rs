//! Media types, as far as reading events depends on them (ED-032 to ED-037, ED-047).

/// A media type with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MediaType<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// All parameters, as they stand there.
    parameters: &'a str,
}

impl<'a> MediaType<'a> {
    /// Reads the value of a `Content-Type`; `None` if it has no type and subtype.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = essence.split_once('/')?;
        let (kind, subtype) = (kind.trim(), subtype.trim());
        (!kind.is_empty() && !subtype.is_empty()).then_some(Self {
            kind,
            subtype,
            parameters,
        })
    }

    fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.subtype.eq_ignore_ascii_case(subtype)
    }

    /// `application/json`.
    pub fn is_plain_json(&self) -> bool {
        self.is("application", "json")
    }

    /// One structured CloudEvent.
    pub fn is_cloud_event(&self) -> bool {
        self.is("application", "cloudevents+json")
    }

    /// An array of structured CloudEvents.
    pub fn is_cloud_events_batch(&self) -> bool {
        self.is("application", "cloudevents-batch+json")
    }

    /// Any of the CloudEvents media types, known here or not.
    pub fn is_any_cloud_events(&self) -> bool {
        const START: &str = "cloudevents";
        let start = self.subtype.get(..START.len());
        self.kind.eq_ignore_ascii_case("application")
            && start.is_some_and(|start| start.eq_ignore_ascii_case(START))
    }

    /// `*/json` and `*/*+json`.
    pub fn is_json(&self) -> bool {
        const SUFFIX: &str = "+json";
        let suffix = self.subtype.len().checked_sub(SUFFIX.len());
        let suffix = suffix.and_then(|at| self.subtype.get(at..));
        self.subtype.eq_ignore_ascii_case("json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(SUFFIX))
    }

    /// `text/*`.
    pub fn is_text(&self) -> bool {
        self.kind.eq_ignore_ascii_case("text")
    }

    /// Whether it says nothing about its character set, or that it is UTF-8, of which ASCII is a part.
    pub fn is_utf8(&self) -> bool {
        let mut parameters = self.parameters.split(';');
        let charset = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("charset").then_some(value)
        });
        charset.is_none_or(|charset| {
            ["utf-8", "utf8", "us-ascii"]
                .iter()
                .any(|name| charset.eq_ignore_ascii_case(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_told_apart() {
        let parse = |text| MediaType::parse(text).unwrap();
        let row = |text| {
            let media = parse(text);
            [
                media.is_cloud_event(),
                media.is_cloud_events_batch(),
                media.is_any_cloud_events(),
                media.is_json(),
                media.is_text(),
                media.is_utf8(),
            ]
            .map(|is| if is { '1' } else { '0' })
            .into_iter()
            .collect::<String>()
        };
        for (text, expected) in [
            ("application/cloudevents+json", "101101"),
            ("Application/CloudEvents+JSON ; Charset=\"UTF-8\"", "101101"),
            ("application/cloudevents-batch+json", "011101"),
            ("application/cloudevents+xml", "001001"),
            ("application/cloudevents", "001001"),
            ("application/json", "000101"),
            ("text/json", "000111"),
            ("application/vnd.x+json; charset=utf-8", "000101"),
            ("application/json; charset=iso-8859-1", "000100"),
            ("text/plain; format=flowed; charset=latin1", "000010"),
            ("text/plain; charset=us-ascii", "000011"),
            ("application/jsonx", "000001"),
            ("image/png", "000001"),
            ("application/é", "000001"),
        ] {
            assert_eq!(row(text), expected, "{text}");
        }
        for text in ["", "json", "/", "text/", "/plain", ";"] {
            assert_eq!(MediaType::parse(text), None, "{text}");
        }
    }
}
