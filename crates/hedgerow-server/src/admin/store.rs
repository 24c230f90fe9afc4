//! How full the store is, what it did to make room, and what it reads and writes: what an operator looks at when publishing
//! answers 503, and when a disk wears out.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn get(State(app): State<SharedApp>) -> Result<Json<Value>, ApiError> {
    let usage = app.engine()?.store().usage();
    let counts = &app.disk_counts;
    Ok(Json(json!({
        "usedBytes": usage.used_bytes,
        "watermarkBytes": usage.watermark_bytes,
        "isFull": usage.is_full(),
        "queuedBytes": usage.queued_bytes,
        "keptBytes": usage.kept_bytes,
        "recycledSegments": usage.recycled_segments,
        "cleanedSegments": usage.cleaned_segments,
        "copiedEvents": usage.copied_events,
        "compactedFiles": usage.compacted_files,
        // Everything but the view's table, since the server began.
        "writtenBytes": counts.written_bytes(),
        "readBytes": counts.read_bytes(),
        "syncs": counts.syncs(),
    })))
}
