//! How full the store is, and what it did to make room.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn get(State(app): State<SharedApp>) -> Result<Json<Value>, ApiError> {
    let usage = app.engine()?.store().usage();
    Ok(Json(json!({
        "usedBytes": usage.used_bytes,
        "watermarkBytes": usage.watermark_bytes,
        "isFull": usage.is_full,
        "queuedBytes": usage.queued_bytes,
        "keptBytes": usage.kept_bytes,
        "recycledSegments": usage.recycled_segments,
        "cleanedSegments": usage.cleaned_segments,
        "copiedEvents": usage.copied_events,
        "compactedFiles": usage.compacted_files,
    })))
}
