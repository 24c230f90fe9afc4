//! The tables in `cases/`, one test a kind.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // A test stops at once, and a table prints its counts.

use std::path::{Path, PathBuf};

use hedgerow_cases::kinds::KINDS;

/// Runs the tables of a kind.
fn run(kind: &str) {
    let report = hedgerow_cases::run(&files(&cases().join(kind))).unwrap();
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    let kinds: Vec<_> = report.ran.keys().collect();
    assert_eq!(kinds, [kind], "a folder has the cases of one kind");
}

macro_rules! one_test_a_kind {
    ($($kind:ident)*) => {
        $(#[test]
        fn $kind() {
            run(stringify!($kind));
        })*

        /// No kind and no folder is forgotten.
        #[test]
        fn every_folder_is_run() {
            let listed = [$(stringify!($kind)),*];
            assert_eq!(KINDS.map(|(name, _)| name), listed);
            let mut folders: Vec<_> = files(&cases())
                .into_iter()
                .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
                .collect();
            folders.retain(|folder| !folder.starts_with('.'));
            assert_eq!(folders, listed);
        }
    };
}

one_test_a_kind! {
    batch
    config
    convert
    custom_mapping
    dead_letter_record
    delivery_attributes
    delivery_headers
    detection_time
    effective_interval
    filter
    filter_config
    health_window
    latency
    outcome
    probation
    probe_outcome
    probe_sharing
    publish_validation
    retry_policy_config
    route_match
    sas
    selection
    timeline
    unhealthy_threshold
    volume_estimate
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases")
}

/// What stands in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A faulty table fails, and says where.
#[test]
fn what_is_not_understood_fails() {
    let table = |case: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cases.json");
        let text = format!(r#"{{"format":"hedgerow-delivery-cases/1","cases":[{case}]}}"#);
        std::fs::write(&file, text).unwrap();
        hedgerow_cases::run(&[file]).map(|report| report.failed)
    };
    let case = |kind: &str, input: &str, expect: &str| {
        format!(
            r#"{{"id":"X-1","kind":"{kind}","refs":[],"title":"t","input":{input},"expect":{expect}}}"#
        )
    };
    let outcome = r#"{"kind":"W","status":400}"#;
    let right = table(&case("outcome", outcome, r#"{"result":"final"}"#));
    assert_eq!(right, Ok(Vec::new()));
    for (wrong, says) in [
        (case("outcomes", "{}", "{}"), "unknown kind outcomes"),
        (
            case("outcome", r#"{"kind":"W","statu":400}"#, "{}"),
            "unknown field `statu`",
        ),
        (
            case("outcome", outcome, r#"{"result":"retry"}"#),
            r#"result is "final", not "retry""#,
        ),
        (
            case("outcome", outcome, r#"{"results":1}"#),
            "results is missing, not 1",
        ),
    ] {
        let failed = table(&wrong).unwrap();
        assert!(failed.len() == 1 && failed[0].contains(says), "{failed:?}");
    }
    assert!(table("{}").is_err());
}
