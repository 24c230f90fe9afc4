//! The handshake of the Event Grid and the custom schema: one validation event, which is answered with its code or by
//! opening its URL (ED-152 to ED-159).

use hedgerow_core::time::Timestamp;
use hedgerow_core::validation::{AllowedRate, Consent};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};

use super::{common_headers, insert};

const TYPE: &str = "Microsoft.EventGrid.SubscriptionValidationEvent";
/// As it was captured (ED-153).
const DATA_VERSION: &str = "2";
/// The member of an answer that carries the code (ED-155).
const MEMBER: &str = "validationResponse";

/// What a validation event says.
#[derive(Debug, Clone, Copy)]
pub struct ValidationEvent<'a> {
    /// Its id, a new one each time.
    pub id: &'a str,
    /// The resource path of the topic.
    pub topic_path: &'a str,
    /// When it is sent.
    pub time: Timestamp,
    /// What the endpoint answers. Nobody else may be able to guess it.
    pub code: &'a str,
    /// What a person opens if the endpoint does not answer the code.
    pub url: &'a str,
}

/// The body of the request: an array with the event (ED-152, ED-153).
#[must_use]
pub fn body(event: &ValidationEvent<'_>) -> Vec<u8> {
    let event = json!([{
        "id": event.id,
        "topic": event.topic_path,
        "subject": "",
        "data": { "validationCode": event.code, "validationUrl": event.url },
        "eventType": TYPE,
        "eventTime": event.time.to_string(),
        "metadataVersion": "1",
        "dataVersion": DATA_VERSION,
    }]);
    event.to_string().into_bytes()
}

/// The headers of the request: those of a first delivery (section 3.3), with the event type of a validation.
#[must_use]
pub fn headers(event_id: &str, subscription_name: &str, upper_case_name: bool) -> HeaderMap {
    let mut headers = common_headers(subscription_name, upper_case_name);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=utf-8"),
    );
    insert(&mut headers, "aeg-delivery-count", "0");
    insert(&mut headers, "aeg-metadata-version", "1");
    insert(&mut headers, "aeg-data-version", DATA_VERSION);
    insert(&mut headers, "aeg-output-event-id", event_id);
    headers
}

/// What an answer says (ED-154 to ED-156, ED-158). `body` is `None` if it is longer than anybody reads.
#[must_use]
pub fn judge(status: u16, body: Option<&[u8]>, code: &str, is_name_lenient: bool) -> Consent {
    if status != 200 {
        return Consent::Refused(format!(
            "the endpoint answered the validation event with status {status}; expected was 200 and \
             {{\"{MEMBER}\": the code of the event}}"
        ));
    }
    match found(body, code, is_name_lenient) {
        None => Consent::Given(AllowedRate::Unlimited),
        Some(found) => Consent::ByHand(format!(
            "the endpoint answered the validation event with status 200 and {found}; expected was \
             {{\"{MEMBER}\": the code of the event}}"
        )),
    }
}

/// What stands in a body instead of the code; `None` if it is the code.
fn found(body: Option<&[u8]>, code: &str, is_name_lenient: bool) -> Option<String> {
    let Some(body) = body else {
        return Some("a body that is too long".to_owned());
    };
    if body.iter().all(u8::is_ascii_whitespace) {
        return Some("no body".to_owned());
    }
    let members: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(members) => members,
        Err(_) => return Some("a body that is no JSON object".to_owned()),
    };
    let spelled = |member: &&String| member.eq_ignore_ascii_case(MEMBER);
    let other = members.keys().find(spelled).map(String::as_str);
    let name = if is_name_lenient { other } else { None }.unwrap_or(MEMBER);
    match (members.get(name), other) {
        (Some(Value::String(response)), _) if response == code => None,
        (Some(_), _) => Some(format!("another value in {name:?}")),
        (None, Some(other)) => Some(format!(
            "the member {other:?}, which has to be spelled {MEMBER:?}"
        )),
        (None, None) => Some(format!("no member {MEMBER:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "0A6F7a90-4b2c-4d1e-8f00-000000000001";

    /// ED-152, ED-153: exactly one event, every member.
    #[test]
    fn the_validation_event_has_every_member() {
        let body = body(&ValidationEvent {
            id: "e-1",
            topic_path: "/subscriptions/s/topics/orders",
            time: Timestamp::from_millis(1_893_553_445_000),
            code: CODE,
            url: "https://events.example.com/validate/7.abc",
        });
        let sent: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!([{
            "id": "e-1",
            "topic": "/subscriptions/s/topics/orders",
            "subject": "",
            "data": {
                "validationCode": CODE,
                "validationUrl": "https://events.example.com/validate/7.abc",
            },
            "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
            "eventTime": "2030-01-02T03:04:05Z",
            "metadataVersion": "1",
            "dataVersion": "2",
        }]);
        assert_eq!(without_fraction(sent), expected);
    }

    /// The same instant, however many zeros its fraction has.
    fn without_fraction(mut sent: Value) -> Value {
        let time = sent[0]["eventTime"].as_str().unwrap();
        let whole = time.split(['.', 'Z']).next().unwrap();
        sent[0]["eventTime"] = json!(format!("{whole}Z"));
        sent
    }

    /// Section 3.3.
    #[test]
    fn the_request_has_the_headers_of_a_delivery() {
        let headers = headers("e-1", "billing", true);
        for (name, value) in [
            ("aeg-event-type", "SubscriptionValidation"),
            ("aeg-subscription-name", "BILLING"),
            ("aeg-delivery-count", "0"),
            ("aeg-metadata-version", "1"),
            ("aeg-data-version", "2"),
            ("aeg-output-event-id", "e-1"),
            ("content-type", "application/json; charset=utf-8"),
            ("accept", "*/*"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        assert_eq!(headers.len(), 9, "and the user agent");
    }

    enum Says {
        Yes,
        ByHand(&'static str),
        No,
    }

    /// ED-154 to ED-156, ED-158; FC-14 a to d.
    #[test]
    fn only_200_with_the_code_consents() {
        let right = json!({ "validationResponse": CODE }).to_string();
        let spaced =
            format!("\r\n {{ \"a\": [1], \"validationResponse\" :\t\"{CODE}\", \"b\": null }}\n");
        let capital = json!({ "ValidationResponse": CODE }).to_string();
        let lower_code = json!({ "validationResponse": CODE.to_lowercase() }).to_string();
        let number = json!({ "validationResponse": 1 }).to_string();
        let in_array = json!([{ "validationResponse": CODE }]).to_string();
        let quoted = json!(CODE).to_string();
        let rows = [
            (200, right.as_str(), Says::Yes),
            (200, &spaced, Says::Yes),
            (200, &capital, Says::ByHand("\"ValidationResponse\"")),
            (200, &lower_code, Says::ByHand("another value")),
            (200, &number, Says::ByHand("another value")),
            (200, &in_array, Says::ByHand("no JSON object")),
            (200, &quoted, Says::ByHand("no JSON object")),
            (200, "", Says::ByHand("no body")),
            (200, " \n", Says::ByHand("no body")),
            (200, "{}", Says::ByHand("no member")),
            (200, "<html>", Says::ByHand("no JSON object")),
            (201, &right, Says::No),
            (202, &right, Says::No),
            (204, "", Says::No),
            (301, &right, Says::No),
            (404, &right, Says::No),
            (500, &right, Says::No),
        ];
        for (status, body, says) in rows {
            let found = judge(status, Some(body.as_bytes()), CODE, false);
            match (says, found) {
                (Says::Yes, Consent::Given(AllowedRate::Unlimited)) => {}
                (Says::ByHand(part), Consent::ByHand(text)) => {
                    assert!(text.contains(part), "{status} {body}: {text}");
                }
                (Says::No, Consent::Refused(text)) => {
                    assert!(text.contains(&format!("status {status}")), "{text}");
                    assert!(text.contains("expected was 200"), "{text}");
                }
                (_, other) => panic!("{status} {body}: {other:?}"),
            }
        }
        let too_long = judge(200, None, CODE, false);
        assert!(matches!(too_long, Consent::ByHand(text) if text.contains("too long")));
        let not_text = judge(200, Some(b"\xff\x00"), CODE, false);
        assert!(matches!(not_text, Consent::ByHand(_)));
    }

    /// ED-155: other spellings by a setting only; the code stays exact.
    #[test]
    fn other_spellings_of_the_member_are_a_setting() {
        for name in [
            "ValidationResponse",
            "validationresponse",
            "validationResponse",
        ] {
            let body = json!({ name: CODE }).to_string();
            let lenient = judge(200, Some(body.as_bytes()), CODE, true);
            assert_eq!(lenient, Consent::Given(AllowedRate::Unlimited), "{name}");
        }
        let body = json!({ "ValidationResponse": CODE.to_lowercase() }).to_string();
        let other_code = judge(200, Some(body.as_bytes()), CODE, true);
        assert!(matches!(other_code, Consent::ByHand(_)));
    }
}
