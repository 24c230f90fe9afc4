//! The index of filters: it finds what asking every filter finds, and asks few.

use std::collections::BTreeSet;

use hedgerow_core::event::{DOMAIN_TOPIC, Data, Event};
use hedgerow_core::filter::{Clause, Filter, FilterEvent, FilterIndex, FilterRules};
use hedgerow_core::spec::{FilterSpec, Operator};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

const TOPIC: &str = "/topics/t";

/// Few words, so that filters and events meet.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "", "a", "A", "ab", "Ba", "aba", "/a", "/a/", "/A/b", "K", "\u{212a}", "ß",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Value> {
    let texts = [
        "0",
        "-0.0",
        "1",
        "1.0",
        "10e-1",
        "9007199254740993",
        "9007199254740992",
        "1e400",
        "-2.5",
    ];
    proptest::sample::select(texts.to_vec()).prop_map(|text| serde_json::from_str(text).unwrap())
}

fn key() -> impl Strategy<Value = String> {
    let keys = [
        "data",
        "data.a",
        "Data.A",
        "data.a.b",
        "data.b",
        "data.B.a",
        r"data.a\.b",
        "subject",
        "eventType",
        "type",
        "id",
        "priority",
        "subject.a",
    ];
    proptest::sample::select(keys.to_vec()).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        word().prop_map(Value::from),
    ]
}

fn data() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        let name = proptest::sample::select(vec!["a", "A", "b", "B", "a.b"]);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name, inner), 0..4).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

fn advanced() -> impl Strategy<Value = Value> {
    let operator = proptest::sample::select(Operator::ALL.to_vec());
    let operands = (vec(word(), 1..3), vec(number(), 1..3), any::<bool>());
    (operator, key(), operands).prop_map(|(operator, key, (texts, numbers, truth))| {
        let mut filter = json!({ "operatorType": operator.as_str(), "key": key });
        let name = operator.as_str();
        if name.starts_with("Is") {
            // Takes nothing.
        } else if name.ends_with("InRange") {
            filter["values"] = json!([[numbers[0], numbers[0]]]);
        } else if name == "NumberIn" || name == "NumberNotIn" {
            filter["values"] = json!(numbers);
        } else if name.starts_with("Number") {
            filter["value"] = numbers[0].clone();
        } else if name == "BoolEquals" {
            filter["value"] = json!(truth);
        } else if name == "StringIn" || name == "StringNotIn" {
            filter["values"] = json!(texts);
        } else {
            let texts = texts.into_iter().map(|text| format!("{text}a"));
            filter["values"] = texts.collect();
        }
        filter
    })
}

fn filter() -> impl Strategy<Value = FilterSpec> {
    let types = option::of(vec(word(), 1..3));
    (
        types,
        word(),
        word(),
        any::<[bool; 2]>(),
        vec(advanced(), 0..3),
    )
        .prop_map(|(types, begin, end, [case, arrays], advanced)| {
            let json = json!({
                "includedEventTypes": types, "subjectBeginsWith": begin, "subjectEndsWith": end,
                "isSubjectCaseSensitive": case, "enableAdvancedFilteringOnArrays": arrays,
                "advancedFilters": advanced,
            });
            FilterSpec::check(&json, "").unwrap()
        })
}

/// The domain topic of an event or of a subscription, if it has one.
fn domain_topic() -> impl Strategy<Value = Option<String>> {
    let names = ["foo", "Foo", "bar", "a-b"];
    option::of(proptest::sample::select(names.to_vec()).prop_map(str::to_owned))
}

#[derive(Debug, Clone)]
struct Published {
    domain_topic: Option<String>,
    is_cloud: bool,
    event_type: String,
    subject: Option<String>,
    priority: Value,
    data: Option<String>,
}

impl Published {
    fn event(&self) -> Event<'_> {
        let priority = self.priority.to_string();
        Event {
            id: "a".into(),
            source: self.is_cloud.then(|| "/a".into()),
            event_type: self.event_type.as_str().into(),
            subject: self.subject.as_deref().map(Into::into),
            time: None,
            data_version: None,
            data_content_type: None,
            data_schema: None,
            extensions: {
                let attribute = self.is_cloud.then(|| ("priority".into(), priority.into()));
                let topic = self.domain_topic.as_ref();
                let topic = topic.map(|name| (DOMAIN_TOPIC.into(), format!("\"{name}\"").into()));
                attribute.into_iter().chain(topic).collect()
            },
            data: match &self.data {
                Some(json) => Data::Json(json.into()),
                None => Data::Binary(b"a".into()),
            },
        }
    }
}

fn published() -> impl Strategy<Value = Published> {
    let data = option::weighted(0.9, data().prop_map(|data| data.to_string()));
    let envelope = (domain_topic(), any::<bool>(), word(), option::of(word()));
    (envelope, scalar(), data).prop_map(
        |((domain_topic, is_cloud, event_type, subject), priority, data)| Published {
            domain_topic,
            is_cloud,
            event_type,
            subject,
            priority,
            data,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_index_finds_what_asking_every_filter_finds(
        specs in vec((filter(), domain_topic()), 0..12),
        events in vec(published(), 1..4),
        removed in vec(any::<prop::sample::Index>(), 0..4),
        rules in any::<[bool; 2]>(),
    ) {
        let rules = FilterRules {
            number_not_in_range_matches_missing: rules[0],
            paths_through_arrays: rules[1],
        };
        let filters: Vec<_> = specs
            .iter()
            .map(|(spec, domain_topic)| {
                let filter = Filter::new(spec, rules);
                match domain_topic {
                    None => filter,
                    Some(name) => filter.of_domain_topic(&name.parse().unwrap()),
                }
            })
            .collect();
        let mut index = FilterIndex::new(rules);
        let mut present = BTreeSet::new();
        for (id, filter) in filters.iter().enumerate() {
            index.insert(id, 0..10, filter.clone());
            present.insert(id);
        }
        for one in removed {
            if !filters.is_empty() {
                let id = one.index(filters.len());
                index.remove(id);
                present.remove(&id);
                // What was given free is used again.
                index.insert(filters.len() + id, 0..10, filters[id].clone());
                index.remove(filters.len() + id);
            }
        }
        for published in events {
            let event = published.event();
            let event = FilterEvent::new(&event, TOPIC);
            // ED-074, ED-077, ED-078: one of a domain topic gets nothing of others, whatever its filter says.
            for (filter, (_, domain_topic)) in filters.iter().zip(&specs) {
                let topics = (domain_topic, &published.domain_topic);
                let is_other = match topics {
                    (None, _) => false,
                    (Some(_), None) => true,
                    (Some(of), Some(named)) => !of.eq_ignore_ascii_case(named),
                };
                let refused = filter.matches(&event) == Err(Clause::DomainTopic);
                assert_eq!(refused, is_other, "{topics:?}");
            }
            let wanted: BTreeSet<_> = present
                .iter()
                .copied()
                .filter(|id| filters[*id].matches(&event).is_ok())
                .collect();
            let mut found = BTreeSet::new();
            let mut asked = BTreeSet::new();
            index.ask(5, &event, |_| true, |answer| {
                assert!(asked.insert(answer.id), "each is asked once");
                assert_eq!(answer.result, filters[answer.id].matches(&event));
                if answer.result.is_ok() {
                    found.insert(answer.id);
                }
            });
            prop_assert_eq!(found, wanted);
        }
    }

    /// Of any JSON, with any key; nothing panics, and IsNotNull and IsNullOrUndefined never agree.
    #[test]
    fn a_key_is_looked_up_in_any_data(key in ".{1,12}", data in data(), through: bool) {
        let rules = FilterRules { paths_through_arrays: through, ..FilterRules::default() };
        let published = Published {
            domain_topic: None,
            is_cloud: false, event_type: "t".into(), subject: None, priority: Value::Null, data: Some(data.to_string()),
        };
        let event = published.event();
        let event = FilterEvent::new(&event, TOPIC);
        let asked = |operator: &str| {
            let json = json!({ "advancedFilters": [{ "operatorType": operator, "key": key }] });
            let spec = FilterSpec::check(&json, "").unwrap();
            Filter::new(&spec, rules).matches(&event).is_ok()
        };
        prop_assert_ne!(asked("IsNotNull"), asked("IsNullOrUndefined"));
    }
}

/// ED-085: versions of one subscription's filter decide each about its own events.
#[test]
fn a_version_decides_about_its_own_events() {
    let rules = FilterRules::default();
    let of_type = |name: &str| {
        let spec = FilterSpec::check(&json!({ "includedEventTypes": [name] }), "").unwrap();
        Filter::new(&spec, rules)
    };
    let mut index = FilterIndex::new(rules);
    index.insert("one", 3..7, of_type("a"));
    index.insert("one", 7..u64::MAX, of_type("b"));
    let wants = |seq, event_type: &str| {
        let published = Published {
            domain_topic: None,
            is_cloud: false,
            event_type: event_type.to_owned(),
            subject: None,
            priority: Value::Null,
            data: None,
        };
        let event = published.event();
        let mut count = 0;
        let event = FilterEvent::new(&event, TOPIC);
        index.ask(
            seq,
            &event,
            |_| true,
            |answer| count += usize::from(answer.result.is_ok()),
        );
        count
    };
    let seqs = [2, 3, 6, 7, 1000];
    assert_eq!(seqs.map(|seq| wants(seq, "a")), [0, 1, 1, 0, 0]);
    assert_eq!(seqs.map(|seq| wants(seq, "b")), [0, 0, 0, 1, 1]);
}

/// However the filters differ: of 10,000, of which three want the event, few are asked.
#[test]
fn few_of_many_filters_are_asked() {
    const COUNT: usize = 10_000;
    type Differ = fn(usize) -> Value;
    let ways: [(&str, Differ); 7] = [
        (
            "event type",
            |n| json!({ "includedEventTypes": [format!("type-{n}")] }),
        ),
        ("StringIn, all else equal", |n| {
            json!({
                "includedEventTypes": ["type-7"], "subjectBeginsWith": "/t/",
                "advancedFilters": [
                    { "operatorType": "StringIn", "key": "data.tenant", "values": [format!("tenant-{n}")] },
                    { "operatorType": "StringContains", "key": "data.tenant", "values": ["tenant"] },
                ],
            })
        }),
        (
            "NumberIn",
            |n| json!({ "advancedFilters": [{ "operatorType": "NumberIn", "key": "data.n", "values": [n, n + 20_000] }] }),
        ),
        ("StringIn on keys of their own", |n| {
            let key = format!("data.of.k{n}");
            json!({ "advancedFilters": [{ "operatorType": "StringIn", "key": key, "values": ["x"] }] })
        }),
        (
            "subject prefixes of different length",
            |n| json!({ "subjectBeginsWith": format!("/t/7{}", "/x".repeat(n % 50) + &n.to_string()) }),
        ),
        (
            "subject suffixes",
            |n| json!({ "subjectEndsWith": format!("/{n}"), "isSubjectCaseSensitive": true }),
        ),
        (
            "a second clause where the first is shared",
            |n| json!({ "includedEventTypes": ["type-7"], "subjectEndsWith": format!("/{n}") }),
        ),
    ];
    for (way, differ) in ways {
        let rules = FilterRules::default();
        let mut index = FilterIndex::new(rules);
        for id in 0..COUNT {
            // Three want the event of number 7.
            let number = if id == 5_000 || id == 9_999 { 7 } else { id };
            let spec = FilterSpec::check(&differ(number), "").unwrap();
            index.insert(id, 0..u64::MAX, Filter::new(&spec, rules));
        }
        let data = r#"{"tenant": "Tenant-7", "n": 7.0, "of": {"k7": "X"}}"#;
        let mut asked = 0;
        let mut wanted = Vec::new();
        for subject in ["/t/7/x/x/x/x/x/x/x7/7", "/t/other"] {
            let event = Event {
                id: "1".into(),
                source: None,
                event_type: "Type-7".into(),
                subject: Some(subject.into()),
                time: None,
                data_version: None,
                data_content_type: None,
                data_schema: None,
                extensions: Vec::new(),
                data: Data::Json(data.into()),
            };
            let event = FilterEvent::new(&event, TOPIC);
            index.ask(
                1,
                &event,
                |_| true,
                |answer| {
                    asked += 1;
                    if answer.result.is_ok() {
                        wanted.push((subject, answer.id));
                    }
                },
            );
        }
        let first: Vec<_> = wanted
            .iter()
            .filter(|(subject, _)| subject.len() > 10)
            .collect();
        assert_eq!(first.len(), 3, "{way}: {wanted:?}");
        assert!(asked <= 2 * 8, "{way}: {asked} filters were asked");
    }
}

/// Design D3: an event is shown to the subscriptions of its domain topic, however many there are of others.
#[test]
fn subscriptions_of_other_domain_topics_are_not_asked() {
    let rules = FilterRules::default();
    let mut index = FilterIndex::new(rules);
    for id in 0..1_000 {
        let filter = Filter::new(&FilterSpec::default(), rules);
        let name = format!("topic-{}", id % 500);
        index.insert(id, 0..10, filter.of_domain_topic(&name.parse().unwrap()));
    }
    let published = Published {
        domain_topic: Some("TOPIC-7".to_owned()),
        is_cloud: false,
        event_type: "a".to_owned(),
        subject: None,
        priority: Value::Null,
        data: None,
    };
    let event = published.event();
    let mut asked = Vec::new();
    let event = FilterEvent::new(&event, TOPIC);
    index.ask(
        5,
        &event,
        |_| true,
        |answer| asked.push((answer.id, answer.result)),
    );
    assert_eq!(asked, [(7, Ok(())), (507, Ok(()))]);
}
