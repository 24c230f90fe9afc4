//! Groups as text of the interfaces (HP-005, HP-116): no text whatever makes the reader panic; what is refused says why; what
//! is accepted is written and read to the same group, and keeps every range.
#![no_main]

use hedgerow_origin::limits;
use hedgerow_origin::settings::Group;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(declared) = serde_json::from_slice::<serde_json::Value>(data) else {
        return;
    };
    let group = match Group::read(&declared) {
        Ok(group) => group,
        Err(refusal) => {
            assert!(!refusal.problems().is_empty());
            assert!(refusal.codes().is_sorted());
            return;
        }
    };
    let settings = group.settings();
    let written = serde_json::to_value(settings).expect("settings are written");
    let again = Group::read(&written).expect("what was accepted is accepted again");
    assert_eq!(group, again);
    assert_eq!(Group::new(settings.clone()).as_ref(), Ok(&group));

    let probe = &settings.probe;
    assert!(limits::INTERVAL_S.contains(&probe.interval_s));
    assert!(limits::TIMEOUT_S.contains(&probe.timeout_s));
    assert!(probe.timeout_s <= probe.interval_s);
    assert!(probe.path.starts_with('/') && !probe.path.contains('#'));
    assert!(limits::ORIGINS.contains(&settings.origins.len()));
    assert!(probe.enabled || group.enabled_origins() <= 1);
    let thresholds = group.thresholds();
    assert!((1..=thresholds.sample_size()).contains(&thresholds.required()));
    for origin in &settings.origins {
        assert!(limits::WEIGHT.contains(&origin.weight));
        assert!(limits::PRIORITY.contains(&origin.priority));
        // Whatever is accepted can be written into a request as it is.
        for text in [&origin.host, &origin.host_header, &probe.path] {
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
        }
    }
    for (name, value) in &probe.headers {
        assert!(!name.is_empty() && !name.contains([' ', ':', '\r', '\n']));
        assert!(!value.contains(['\r', '\n', '\0']));
    }
});
