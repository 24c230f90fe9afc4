//! Declares many things at once, or nothing ([`crate::apply`]).

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::{limits, spec};
use serde_json::{Value, json};

use super::extract::Bearer;
use crate::apply::{self, Applied, ApplyError, Fault};
use crate::body::{self, BodyError};
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn post(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut body = request.into_body();
    let read = body::read(&mut body, limits::APPLY_BYTES_MAX, app.body_timeout).await;
    if read == Err(BodyError::TooLarge) {
        body::discard(body);
        return Err(ApiError::body_too_large(limits::APPLY_BYTES_MAX));
    }
    let declarations = spec::parse(&read?, limits::APPLY_BYTES_MAX)?;
    match apply::apply(&app, &grant, &declarations).await {
        Ok(applied) => Ok(Json(json!({ "value": shown(&applied) }))),
        Err(ApplyError::Invalid(faults)) => Err(ApiError::faults(&faults)),
        Err(ApplyError::Incomplete {
            done,
            failed,
            warnings,
        }) => Err(ApiError::incomplete(&done, &failed, &warnings)),
        Err(ApplyError::Unavailable(message)) => Err(ApiError::unavailable(message)),
    }
}

fn shown(applied: &[Applied]) -> Vec<Value> {
    let shown = applied.iter().map(|applied| {
        let mut shown = json!({ "what": applied.what, "change": applied.change.as_str() });
        if let Some(provisioning) = applied.provisioning {
            shown["provisioningState"] = json!(provisioning.as_str());
        }
        if !applied.warnings.is_empty() {
            let warnings = applied.warnings.iter();
            let warning = |fault: &Fault| json!({ "field": fault.path, "message": fault.message });
            shown["warnings"] = warnings.map(warning).collect();
        }
        shown
    });
    shown.collect()
}
