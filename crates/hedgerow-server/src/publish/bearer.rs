//! Publishing with one of the server's own tokens, in place of a topic's key. Tokens of others' issuers (ED-026) are not taken.

use http::request::Parts;

use crate::publish::credential::is_keyed;
use crate::state::App;

/// What one of our tokens says of publishing to a topic.
pub enum Judged {
    /// It allows that.
    Allowed,
    /// It is valid and without the right (ED-027).
    Refused,
    /// It does not reach that far: to its bearer the topic is not there (FC-26).
    Beyond,
}

/// Judges a request that bears one of our tokens; `None` if it does not, or if a credential stands before it (ED-028).
pub fn judge(app: &App, request: &Parts, topic: &str) -> Option<Judged> {
    if is_keyed(request) {
        return None;
    }
    let grant = app.tokens.grant(&request.headers, app.time())?;
    Some(if !grant.reaches(topic) {
        Judged::Beyond
    } else if grant.may_publish(topic) {
        Judged::Allowed
    } else {
        Judged::Refused
    })
}
