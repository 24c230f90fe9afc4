//! What a topic may be declared as (ED-030, ED-048 to ED-050, ED-054).

use hedgerow_core::limits;
use hedgerow_core::spec::{InputSchema, STORAGE_ACCOUNT, TopicSpec};
use serde_json::{Value, json};

fn custom(properties: &Value) -> Value {
    json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": properties },
    })
}

#[test]
fn a_topic_is_read_again_as_it_was_written() {
    let mapping = json!({
        "id": { "sourceField": "a" }, "topic": { "sourceField": "b.c" },
        "eventTime": { "sourceField": "d" },
        "eventType": { "sourceField": "e", "defaultValue": "E" },
        "subject": { "defaultValue": "S" },
        "dataVersion": { "defaultValue": "" },
    });
    for declared in [
        json!({}),
        json!({ "inputSchema": "EventGridSchema", "disableLocalAuth": true }),
        json!({ "inputSchema": "CloudEventSchemaV1_0", "inputSchemaMapping": null }),
        json!({ "source": STORAGE_ACCOUNT }),
        custom(&mapping),
    ] {
        let spec = TopicSpec::check(&declared).unwrap().spec;
        assert_eq!(TopicSpec::check(&spec.to_json()).unwrap().spec, spec);
    }
    let spec = TopicSpec::check(&custom(&mapping)).unwrap().spec;
    assert_eq!(spec.input_schema, InputSchema::CustomEventSchema);
    assert_eq!(
        spec.to_json()["inputSchemaMapping"]["properties"],
        mapping,
        "ED-048"
    );
}

#[test]
fn what_is_no_topic_is_refused_by_its_member() {
    let properties = |member: &str, entry: Value| custom(&json!({ member: entry }));
    let path = |member: &str| format!("inputSchemaMapping.properties.{member}");
    let long = "x".repeat(limits::SOURCE_FIELD_BYTES_MAX + 1);
    let deep = vec!["x"; limits::SOURCE_FIELD_PARTS_MAX + 1].join(".");
    let default = "x".repeat(limits::MAPPING_DEFAULT_BYTES_MAX + 1);
    let mut cases = vec![
        (
            json!({ "inputSchema": "CloudEventV01Schema" }),
            "inputSchema".to_owned(),
        ),
        (json!({ "inputSchema": 1 }), "inputSchema".to_owned()),
        (
            json!({ "inputSchema": "eventgridschema" }),
            "inputSchema".to_owned(),
        ),
        (
            json!({ "disableLocalAuth": "yes" }),
            "disableLocalAuth".to_owned(),
        ),
        (
            json!({ "inputSchema": "CustomEventSchema" }),
            "inputSchemaMapping".to_owned(),
        ),
        (
            json!({ "inputSchemaMapping": { "properties": { "id": { "sourceField": "a" } } } }),
            "inputSchemaMapping".to_owned(),
        ),
        (
            json!({ "inputSchema": "CustomEventSchema", "inputSchemaMapping": {} }),
            "inputSchemaMapping.properties".to_owned(),
        ),
        (
            json!({ "inputSchema": "CustomEventSchema", "inputSchemaMapping": {
                "inputSchemaMappingType": "Xml", "properties": { "id": { "sourceField": "a" } },
            }}),
            "inputSchemaMapping.inputSchemaMappingType".to_owned(),
        ),
        (
            properties("metadataVersion", json!({ "sourceField": "a" })),
            path("metadataVersion"),
        ),
        (
            properties("id", json!({ "sourcefield": "a" })),
            path("id.sourcefield"),
        ),
        (
            properties("subject", json!({})),
            "inputSchemaMapping.properties".to_owned(),
        ),
        (
            properties("subject", json!({ "defaultValue": "" })),
            path("subject.defaultValue"),
        ),
        (
            properties("eventType", json!({ "defaultValue": default })),
            path("eventType.defaultValue"),
        ),
    ];
    for field in ["", ".", "a.", ".a", "a..b", &long, &deep] {
        cases.push((
            properties("id", json!({ "sourceField": field })),
            path("id.sourceField"),
        ));
    }
    for (declared, field) in cases {
        let error = TopicSpec::check(&declared).unwrap_err();
        assert_eq!(error.field, field, "{declared}: {error}");
    }
}

/// ED-030: the schema and what belongs to it never change; the rest may.
#[test]
fn schema_and_mapping_never_change() {
    let check = |value: &Value| TopicSpec::check(value).unwrap().spec;
    let grid = check(&json!({}));
    let closed = check(&json!({ "disableLocalAuth": true }));
    let cloud = check(&json!({ "inputSchema": "CloudEventSchemaV1_0" }));
    let one = check(&custom(&json!({ "id": { "sourceField": "a" } })));
    let other = check(&custom(&json!({ "id": { "sourceField": "b" } })));
    assert!(grid.check_change(&closed).is_ok());
    assert_eq!(grid.check_change(&cloud).unwrap_err().field, "inputSchema");
    assert_eq!(
        one.check_change(&other).unwrap_err().field,
        "inputSchemaMapping"
    );
}

/// What neither has a source nor a default is empty in every event, and its author is told.
#[test]
fn unmapped_members_are_warned_of() {
    let declared = custom(&json!({ "eventType": { "defaultValue": "t" } }));
    let fields: Vec<_> = TopicSpec::check(&declared)
        .unwrap()
        .warnings
        .into_iter()
        .map(|warning| warning.field)
        .collect();
    assert_eq!(fields, ["inputSchemaMapping.properties.subject"]);
}

/// ED-318: a system topic has the storage account that there is as its source, and nothing else.
#[test]
fn a_system_topic_tells_of_the_storage_account() {
    let kind = "Microsoft.Storage.StorageAccounts";
    let declared = json!({ "source": STORAGE_ACCOUNT, "topicType": kind });
    let spec = TopicSpec::check(&declared).unwrap().spec;
    assert_eq!(spec.to_json()["source"], STORAGE_ACCOUNT);
    assert_eq!(spec.to_json()["topicType"], kind);
    for (declared, field) in [
        (json!({ "source": "orders" }), "source"),
        (json!({ "topicType": kind }), "source"),
        (
            json!({ "source": STORAGE_ACCOUNT, "topicType": "Microsoft.Maps.Accounts" }),
            "topicType",
        ),
        (
            json!({ "source": STORAGE_ACCOUNT, "inputSchema": "CloudEventSchemaV1_0" }),
            "inputSchema",
        ),
    ] {
        assert_eq!(
            TopicSpec::check(&declared).unwrap_err().field,
            field,
            "{declared}"
        );
    }
    let ordinary = TopicSpec::default();
    assert_eq!(ordinary.check_change(&spec).unwrap_err().field, "source");
    assert_eq!(spec.check_change(&ordinary).unwrap_err().field, "source");
}
