//! From a publish request to `CloudEvents`, by its media type (ED-034 to ED-037): structured, batch, or binary.

mod attributes;
mod binary;
mod header_value;
mod structured;

use hedgerow_core::spec::InputSchema;
use http::header::HeaderMap;

use crate::event_grid::PublishError;
use crate::publish::array;
use crate::publish::media_type::MediaType;
use crate::publish::{self, Element, Request};
use structured::ReadEvent;

const SCHEMA: &str = InputSchema::CloudEventSchemaV1_0.as_str();
/// How the headers of binary mode begin.
const PREFIX: &str = "ce-";
/// The header that names the domain topic for the whole request (ED-073).
const DOMAIN_TOPIC: &str = "hedgerow-domain-topic";

/// How the events of a request are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One JSON object. Of a request that says no more than that it is JSON, one with `specversion`.
    Structured { needs_version: bool },
    /// A JSON array.
    Batch,
    /// Attributes in headers, the data in the body.
    Binary,
}

pub(crate) fn decode<'b>(
    body: &'b [u8],
    request: &Request<'b>,
) -> Result<Vec<Element<'b>>, PublishError> {
    let domain = domain(request)?;
    match mode(request.headers)? {
        Mode::Structured { needs_version } => {
            let text = publish::body_text(body)?;
            structured::read_one(text, &mut ReadEvent { domain }, needs_version)
                .map(|event| vec![event])
        }
        Mode::Batch => array::read(publish::body_text(body)?, SCHEMA, &mut ReadEvent { domain }),
        Mode::Binary => binary::read(body, request.headers, domain).map(|event| vec![event]),
    }
}

/// The domain, and the domain topic that the request names for all its events.
#[derive(Debug, Clone, Copy)]
struct Domain<'r> {
    path: &'r str,
    topic: Option<&'r str>,
}

fn domain<'r>(request: &Request<'r>) -> Result<Option<Domain<'r>>, PublishError> {
    let Some(path) = request.domain else {
        return Ok(None);
    };
    let topic = request.headers.get(DOMAIN_TOPIC).map(|value| {
        value.to_str().map_err(|_| {
            PublishError::body(format!("The header '{DOMAIN_TOPIC}' has odd characters."))
        })
    });
    let topic = topic.transpose()?;
    Ok(Some(Domain { path, topic }))
}

/// A CloudEvents media type decides, then headers of binary mode, then `application/json`, which a request without any
/// type counts as.
fn mode(headers: &HeaderMap) -> Result<Mode, PublishError> {
    let content_type = publish::content_type(headers);
    let media_type = content_type.and_then(MediaType::parse);
    let mode = match media_type {
        Some(media) if media.is_cloud_event() => Mode::Structured {
            needs_version: false,
        },
        Some(media) if media.is_cloud_events_batch() => Mode::Batch,
        Some(media) if media.is_any_cloud_events() => {
            let message = "Of the CloudEvents media types only 'application/cloudevents+json' and \
                 'application/cloudevents-batch+json' are taken.";
            return Err(PublishError::body(message));
        }
        _ if is_binary(headers) => return Ok(Mode::Binary),
        Some(media) if media.is_plain_json() => Mode::Structured {
            needs_version: true,
        },
        None if !headers.contains_key(http::header::CONTENT_TYPE) => {
            return Ok(Mode::Structured {
                needs_version: true,
            });
        }
        _ => {
            let message = "This topic takes CloudEvents: send 'Content-Type: application/cloudevents+json', \
                 'application/cloudevents-batch+json', or the attributes as headers 'ce-...'.";
            return Err(PublishError::body(message));
        }
    };
    if !media_type.is_some_and(|media| media.is_utf8()) {
        return Err(PublishError::body("The only character set is UTF-8."));
    }
    Ok(mode)
}

fn is_binary(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}
