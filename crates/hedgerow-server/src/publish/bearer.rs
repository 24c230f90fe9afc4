//! Publishing with one of the server's own tokens, in place of a topic's key. Tokens of others' issuers (ED-026) are not taken.

use http::request::Parts;

use crate::error::Refusal;
use crate::publish::credential::is_keyed;
use crate::state::App;

/// Judges a request that bears one of our tokens; `None` if it does not, or if a credential stands before it (ED-028). Valid
/// and without the right for this topic is 403 (ED-027).
pub fn judge(app: &App, request: &Parts, topic: &str) -> Option<Result<(), Refusal>> {
    if is_keyed(request) {
        return None;
    }
    let grant = app.tokens.grant(&request.headers, app.time())?;
    Some(if grant.may_publish(topic) {
        Ok(())
    } else {
        Err(Refusal::may_not_publish())
    })
}
