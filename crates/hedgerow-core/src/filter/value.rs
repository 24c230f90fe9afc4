//! A value at a key, as far as operators look at it: scalars in the forms in which they are compared, arrays of those, and
//! whether there is anything at all (ED-093, ED-100 to ED-102, ED-114).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fold;
use crate::decimal::{Decimal, OwnedDecimal};

/// The value at a key.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    /// There is none.
    Absent,
    /// JSON null; no operator tells it from an absent one (ED-093).
    Null,
    /// A text, a number or a truth value.
    Scalar(Scalar<'a>),
    /// An array.
    Array(Array<'a>),
    /// An object, which fits no operator (ED-102).
    Object,
}

/// A text, a number or a truth value: what it is, or for an attribute of CloudEvents everything it can be read as (ED-101).
#[derive(Debug, Clone, Default)]
pub(super) struct Scalar<'a> {
    /// Folded (ED-095).
    pub(super) text: Option<Cow<'a, str>>,
    number: Option<Number<'a>>,
    pub(super) boolean: Option<bool>,
}

#[derive(Debug, Clone)]
enum Number<'a> {
    Read(Decimal<'a>),
    /// Of a text that stood there with escapes.
    Made(OwnedDecimal),
}

/// The elements of an array that can be compared; others are ignored (ED-112, ED-114). They are read when somebody asks.
#[derive(Debug, Clone)]
pub(super) struct Array<'a> {
    json: &'a str,
    scalars: OnceCell<Vec<Scalar<'a>>>,
}

impl<'a> Value<'a> {
    /// Reads a value whose JSON is valid.
    pub(super) fn of_json(json: &'a str) -> Self {
        let json = json.trim_ascii();
        match json.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array(Array {
                json,
                scalars: OnceCell::new(),
            }),
            _ => Scalar::of_json(json).map_or(Self::Absent, Self::Scalar),
        }
    }

    /// The value of an attribute of CloudEvents, from its JSON.
    pub(super) fn of_attribute_json(json: &'a str) -> Self {
        let json = json.trim_ascii();
        match json.as_bytes().first() {
            Some(b'"') => unquote(json).map_or(Self::Absent, |text| {
                Self::Scalar(Scalar::of_attribute(text))
            }),
            Some(b't' | b'f' | b'-' | b'0'..=b'9') => {
                Self::Scalar(Scalar::of_attribute(Cow::Borrowed(json)))
            }
            _ => Self::of_json(json),
        }
    }

    /// An array of what was gathered.
    pub(super) fn of_elements(scalars: Vec<Scalar<'a>>) -> Self {
        Self::Array(Array {
            json: "[]",
            scalars: OnceCell::from(scalars),
        })
    }

    /// The comparable values in it: itself, or elements.
    pub(super) fn scalars(&self) -> &[Scalar<'a>] {
        match self {
            Self::Scalar(scalar) => std::slice::from_ref(scalar),
            Self::Array(array) => array.scalars(),
            Self::Absent | Self::Null | Self::Object => &[],
        }
    }
}

impl<'a> Scalar<'a> {
    pub(super) fn of_text(text: Cow<'a, str>) -> Self {
        Self {
            text: Some(folded(text)),
            ..Self::default()
        }
    }

    /// An attribute of CloudEvents is its text, and what this text is completely (ED-101).
    pub(super) fn of_attribute(text: Cow<'a, str>) -> Self {
        let number = match &text {
            Cow::Borrowed(text) => Decimal::parse(text).map(Number::Read),
            Cow::Owned(text) => Decimal::parse(text).map(|number| Number::Made(number.into())),
        };
        let boolean = match &*text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Self {
            text: Some(folded(text)),
            number,
            boolean,
        }
    }

    /// The number it is or can be read as.
    pub(super) fn number(&self) -> Option<Decimal<'_>> {
        self.number.as_ref().map(|number| match number {
            Number::Read(number) => *number,
            Number::Made(number) => number.get(),
        })
    }

    /// Anything but a text, a number or a truth value is none.
    fn of_json(json: &'a str) -> Option<Self> {
        match json.as_bytes().first()? {
            b'"' => unquote(json).map(Self::of_text),
            b't' | b'f' => Some(Self {
                boolean: Some(json == "true"),
                ..Self::default()
            }),
            _ => Decimal::parse(json).map(|number| Self {
                number: Some(Number::Read(number)),
                ..Self::default()
            }),
        }
    }
}

impl<'a> Array<'a> {
    pub(super) fn scalars(&self) -> &[Scalar<'a>] {
        self.scalars.get_or_init(|| {
            let mut scalars = Vec::new();
            each_element(self.json, |json| scalars.extend(Scalar::of_json(json)));
            scalars
        })
    }
}

/// Hands out the JSON of each element of an array.
pub(super) fn each_element<'a>(array: &'a str, each: impl FnMut(&'a str)) {
    struct Elements<F>(F);
    impl<'de, F: FnMut(&'de str)> Visitor<'de> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
            while let Some(element) = elements.next_element::<&RawValue>()? {
                (self.0)(element.get());
            }
            Ok(())
        }
    }
    // What was accepted is valid; of anything else there is what came before the fault.
    let _ = serde_json::Deserializer::from_str(array).deserialize_seq(Elements(each));
}

fn folded(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => fold(text),
        Cow::Owned(text) => match fold(&text) {
            Cow::Owned(folded) => Cow::Owned(folded),
            Cow::Borrowed(_) => Cow::Owned(text),
        },
    }
}

/// The text that a JSON string stands for. An escaped half of a surrogate pair, which no text has, becomes U+FFFD.
pub(super) fn unquote(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::Deserializer::from_str(json)
        .deserialize_bytes(LossyText)
        .ok()
}

/// Reads a JSON string as text.
pub(super) struct LossyText;

impl<'de> Visitor<'de> for LossyText {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Cow<'de, str>, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
