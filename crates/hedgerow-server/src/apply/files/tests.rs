//! Files are read as the API's JSON, and every fault has its file, line and member.

use super::*;

const GRID: &str = r#"[[topics]]
name = "orders"
keys.key1 = { file = "key" }

[[topics]]
name = "other"
inputSchema = "EventGridSchema"

[[eventSubscriptions]]
topic = "orders"
name = "billing"
labels = [
    "a",
    1,
]
[eventSubscriptions.destination]
endpointType = "WebHook"
properties.endpointUrl = "https://billing.example/hook"
[eventSubscriptions.filter]
advancedFilters = [{ operatorType = "NumberIn", key = "data.n", values = [1, 2.5, -3] }]
[eventSubscriptions.retryPolicy]
maxDeliveryAttempts = 1_0
"#;

fn read(text: &str, more: &[(&str, &str)]) -> Result<GridFiles, Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut paths = vec![write("grid.toml", text)];
    for (name, text) in more {
        let path = write(name, text);
        if Path::new(name).extension().is_some() {
            paths.push(path);
        }
    }
    GridFiles::read(&paths)
}

fn located(files: &GridFiles, path: &str) -> String {
    let fault = Fault {
        path: path.to_owned(),
        message: "is wrong".to_owned(),
    };
    let line = files.locate(&fault);
    line.rsplit_once('/').unwrap().1.to_owned()
}

#[test]
fn files_are_the_json_of_the_api() {
    let second = "[[topics]]\nname = \"third\"\n";
    let files = read(GRID, &[("key", "c2VjcmV0\n"), ("second.toml", second)]).unwrap();
    let expected = json!({
        "topics": [
            {"name": "orders", "keys": {"key1": "c2VjcmV0"}},
            {"name": "other", "inputSchema": "EventGridSchema"},
            {"name": "third"},
        ],
        "eventSubscriptions": [{
            "topic": "orders",
            "name": "billing",
            "labels": ["a", 1],
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "https://billing.example/hook"}},
            "filter": {"advancedFilters": [{"operatorType": "NumberIn", "key": "data.n", "values": [1, 2.5, -3]}]},
            "retryPolicy": {"maxDeliveryAttempts": 10},
        }],
    });
    assert_eq!(files.declarations(), expected);
}

#[test]
fn faults_are_located() {
    let second = "\n\n[[topics]]\nname = \"third\"\n";
    let files = read(GRID, &[("key", "c2VjcmV0"), ("second.toml", second)]).unwrap();
    for (path, line) in [
        ("topics[0].name", "grid.toml:2"),
        ("topics[0].keys.key1", "grid.toml:3"),
        ("topics[1].inputSchema", "grid.toml:7"),
        ("topics[2].name", "second.toml:4"),
        ("eventSubscriptions[0].labels[1]", "grid.toml:14"),
        (
            "eventSubscriptions[0].retryPolicy.maxDeliveryAttempts",
            "grid.toml:22",
        ),
        (
            "eventSubscriptions[0].destination.properties.endpointUrl",
            "grid.toml:18",
        ),
        (
            "eventSubscriptions[0].filter.advancedFilters[0].values[2]",
            "grid.toml:20",
        ),
        // What is missing: where it should be.
        ("topics[1].inputSchemaMapping.id", "grid.toml:5"),
        (
            "eventSubscriptions[0].responseTimeoutSeconds",
            "grid.toml:9",
        ),
    ] {
        assert_eq!(located(&files, path), format!("{line}: {path}: is wrong"));
    }
}

#[test]
fn what_cannot_be_read_is_told_by_line() {
    for (text, said) in [
        ("[[topics]]\nname = \n", "grid.toml:2"),
        ("topics = 1\n", "grid.toml:1: topics: must be a list"),
        (
            "[[topics]]\nname = { env = \"HEDGEROW_NOT_THERE\" }\n",
            "grid.toml:2: topics[0].name: the environment variable HEDGEROW_NOT_THERE is not set",
        ),
        (
            "[[topics]]\nname = \"a\"\nkeys = { key1 = { file = \"nothing\" } }\n",
            "grid.toml:3: topics[0].keys.key1: cannot read",
        ),
        (
            "[[topics]]\nname = { env = \"HOME\", file = \"nothing\" }\n",
            "grid.toml:2: topics[0].name: give env or file, and not both",
        ),
        (
            "[[topics]]\nname = nan\n",
            "grid.toml:2: topics[0].name: is no number",
        ),
    ] {
        let problems = read(text, &[]).unwrap_err();
        assert!(problems[0].contains(said), "{text}: {problems:?}");
    }
    let missing = GridFiles::read(&[PathBuf::from("nothing-here.toml")]).unwrap_err();
    assert!(missing[0].starts_with("nothing-here.toml: cannot read it"));
}

/// A section that is none keeps no other fault from being told, those of further files too: it goes to whoever judges.
#[test]
fn a_misspelt_section_is_judged_with_the_rest() {
    let text = "[[topics]]\nname = \"a\"\n[[eventSubscription]]\nname = \"b\"\n";
    let second = "[[topics]]\nname = \"c\"\n";
    let files = read(text, &[("second.toml", second)]).unwrap();
    let declared = files.declarations();
    assert_eq!(declared["topics"][1]["name"], "c");
    assert!(declared["eventSubscription"].is_array());
    assert_eq!(
        located(&files, "eventSubscription"),
        "grid.toml:3: eventSubscription: is wrong"
    );
}
