//! One event in binary mode: attributes are headers, the body is the data (ED-037, ED-047).

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::attributes::{Attributes, Known, check_name, twice};
use super::{Domain, PREFIX, header_value};
use crate::cloud_events::encode;
use crate::event_grid::PublishError;
use crate::object::{Length, Value};
use crate::publish::media_type::MediaType;
use crate::publish::{Element, array};

/// Reads the event of a request.
pub(super) fn read<'b>(
    body: &'b [u8],
    headers: &'b HeaderMap,
    domain: Option<Domain<'_>>,
) -> Result<Element<'b>, PublishError> {
    let refused = |fault: String| {
        PublishError::body(format!(
            "The headers are no CloudEvent in binary mode: {fault}."
        ))
    };
    let mut attributes = Attributes::default();
    for (name, value) in headers {
        if let Some(attribute) = name.as_str().strip_prefix(PREFIX) {
            set(&mut attributes, name, attribute, value).map_err(refused)?;
        }
    }
    let content_type = content_type(headers).map_err(refused)?;
    let data = data(body, content_type)?;
    if let Some(content_type) = content_type {
        attributes
            .set(Known::DataContentType, Cow::Borrowed(content_type))
            .map_err(refused)?;
    }
    let element = attributes.finish(data, domain).map_err(refused)?;
    array::check_size(0, structured_len(&element.event))?;
    Ok(element)
}

fn set<'b>(
    attributes: &mut Attributes<'b>,
    header: &'b HeaderName,
    name: &'b str,
    value: &'b HeaderValue,
) -> Result<(), String> {
    match name {
        "datacontenttype" => {
            return Err(format!(
                "\"{header}\" is not possible; it is the Content-Type"
            ));
        }
        "data" => {
            return Err(format!(
                "\"{header}\" is not possible; the body is the data"
            ));
        }
        _ => check_name(name)?,
    }
    let text = header_value::decode(value.as_bytes())
        .map_err(|fault| format!("the header \"{header}\" {fault}"))?;
    if let Some(attribute) = Known::of(name) {
        return attributes.set(attribute, text);
    }
    let json = serde_json::to_string(&*text).expect("a text is always JSON");
    attributes.extend(Cow::Borrowed(name), Cow::Owned(json), Some(text))
}

/// The one `Content-Type`, which is `datacontenttype`.
fn content_type(headers: &HeaderMap) -> Result<Option<&str>, String> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(twice("content-type"));
    }
    let text = value.to_str().ok().filter(|text| !text.is_empty());
    text.map(Some)
        .ok_or_else(|| "\"content-type\" is empty or has odd characters".to_owned())
}

/// JSON as it is, text as a string, anything else as bytes (ED-047). A body of no type is taken for JSON if it is some, as
/// an event without `datacontenttype` is. Text in a character set that is not read here stays bytes too: nothing is lost.
fn data<'b>(body: &'b [u8], content_type: Option<&str>) -> Result<Data<'b>, PublishError> {
    if body.is_empty() {
        return Ok(Data::None);
    }
    let media_type = content_type.and_then(MediaType::parse);
    if media_type.is_some_and(|media_type| media_type.is_json()) {
        let text = crate::publish::body_text(body)?;
        return json(text).map_err(|error| array::not_json(&error));
    }
    let text = std::str::from_utf8(body).ok();
    let data = match (media_type, text) {
        (Some(media_type), Some(text)) if media_type.is_text() && media_type.is_utf8() => {
            Some(Data::Text(Cow::Borrowed(text)))
        }
        (None, Some(text)) if content_type.is_none() => json(text).ok(),
        _ => None,
    };
    Ok(data.unwrap_or(Data::Binary(Cow::Borrowed(body))))
}

fn json(text: &str) -> serde_json::Result<Data<'_>> {
    let json: &RawValue = serde_json::from_str(text)?;
    Ok(Data::Json(Cow::Borrowed(json.get())))
}

/// Bytes of the event in structured mode, which is what its limit is about: the encoded form (ED-058, ED-059).
fn structured_len(event: &Event<'_>) -> usize {
    let mut length = Length::default();
    let no_time = Value::Text("");
    encode::attributes(event, "", no_time, Cow::Borrowed, &mut length);
    encode::data(event, &mut length);
    length.bytes()
}
