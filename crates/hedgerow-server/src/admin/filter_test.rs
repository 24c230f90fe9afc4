//! Tries a filter on a sample event, and declares nothing (ED-312): whether it would match, and what each clause says.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::filter::{Clause, ClauseVerdict, Filter, FilterEvent, Found};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::spec::{FilterSpec, TopicSpec};
use hedgerow_delivery::command::{Command, EngineHandle};
use hedgerow_store::catalog::split_source;
use serde_json::{Map, Value, json};

use super::extract::Source;
use super::json_body;
use super::sample::{Defaults, Sample};
use crate::error::ApiError;
use crate::state::{App, SharedApp};

pub async fn post(
    State(app): State<SharedApp>,
    Source(source): Source,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut body = json_body(&app, request).await?;
    let engine = app.engine()?;
    let topics = engine.topics();
    let (topic, domain_topic) = split_source(&source);
    let declared = topics.get(&topic.to_ascii_lowercase());
    let declared = declared.ok_or_else(|| ApiError::no_topic(topic))?;
    let of: Option<DomainTopicName> = domain_topic.and_then(|name| name.parse().ok());
    let Some(members) = body.as_object_mut() else {
        return Err(ApiError::member("", "must be an object"));
    };
    let Some(sample) = members.remove("event") else {
        return Err(ApiError::member("event", "is required: a sample event"));
    };
    let filter = filter_of(&app, &engine, &declared.spec, &source, members).await?;
    let defaults = Defaults {
        id: "sample",
        now: app.time(),
        domain_topic: domain_topic.unwrap_or("sample"),
    };
    let sample = Sample::new(&declared.spec, sample, &defaults)?;
    let event = sample.event(declared, &mut || "sample".to_owned())?;
    let event = FilterEvent::new(&event, &declared.path);
    Ok(Json(judge(&app, &filter, of.as_ref(), &event)))
}

/// The filter that a request is about: one that it has, or that of a subscription.
async fn filter_of(
    app: &App,
    engine: &EngineHandle,
    topic: &TopicSpec,
    name: &str,
    members: &Map<String, Value>,
) -> Result<FilterSpec, ApiError> {
    const KNOWN: [&str; 3] = ["event", "filter", "eventSubscription"];
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let message = format!("is unknown here; known are {}", KNOWN.join(", "));
        return Err(ApiError::member(name, &message));
    }
    let given = |member: &str| members.get(member).filter(|value| !value.is_null());
    match (given("filter"), given("eventSubscription")) {
        (Some(_), Some(_)) => Err(ApiError::member(
            "eventSubscription",
            "is given beside a filter; one of them is tried",
        )),
        (None, Some(Value::String(subscription))) => {
            let (topic, name) = (name.to_owned(), subscription.clone());
            let get = |answer| Command::Subscription {
                topic,
                name,
                answer,
            };
            let found = engine.ask(get).await?;
            Ok(found.subscription.declared().filter.clone())
        }
        (None, Some(_)) => Err(ApiError::member("eventSubscription", "must be a text")),
        (filter, None) => {
            let filter = FilterSpec::check(filter.unwrap_or(&json!({})), "filter")?;
            app.filter_limits.judge(&filter, "filter")?;
            filter.check_keys(topic.input_schema, "filter")?;
            Ok(filter)
        }
    }
}

/// `of` is the topic of a domain that the filter is for.
fn judge(
    app: &App,
    spec: &FilterSpec,
    of: Option<&DomainTopicName>,
    event: &FilterEvent<'_>,
) -> Value {
    let mut filter = Filter::new(spec, app.filter_rules);
    if let Some(of) = of {
        filter = filter.of_domain_topic(of);
    }
    let verdicts = filter.verdicts(event);
    let failed = verdicts.iter().find(|verdict| !verdict.holds);
    let failed = failed.map(|verdict| verdict.clause.to_string());
    let declared = spec.to_json();
    let clauses = verdicts.iter().map(|verdict| shown(verdict, &declared));
    json!({
        "matched": failed.is_none(),
        "failedClause": failed,
        "clauses": clauses.collect::<Vec<_>>(),
    })
}

fn shown(verdict: &ClauseVerdict<'_>, filter: &Value) -> Value {
    let (subject, declared) = match verdict.clause {
        // No filter declares it.
        Clause::DomainTopic => ("the domain topic".to_owned(), &Value::Null),
        Clause::IncludedEventTypes => {
            ("the event's type".to_owned(), &filter["includedEventTypes"])
        }
        Clause::SubjectBeginsWith => ("the subject".to_owned(), &filter["subjectBeginsWith"]),
        Clause::SubjectEndsWith => ("the subject".to_owned(), &filter["subjectEndsWith"]),
        Clause::AdvancedFilters(number) => {
            let declared = &filter["advancedFilters"][number];
            (
                declared["key"].as_str().unwrap_or_default().to_owned(),
                declared,
            )
        }
    };
    let (kind, value) = found(&verdict.found);
    let what = match &verdict.found {
        Found::Absent => "is not there".to_owned(),
        Found::Null => "is null".to_owned(),
        Found::Object => "is an object, which no operator compares".to_owned(),
        Found::Array {
            is_looked_into: false,
            ..
        } => "is an array, and enableAdvancedFilteringOnArrays is off".to_owned(),
        Found::Array { comparable, .. } => {
            format!("is an array with {comparable} values that can be compared")
        }
        Found::Text(_) | Found::Number(_) | Found::Bool(_) => format!("is {value}"),
    };
    let verb = if verdict.holds {
        "holds"
    } else {
        "does not hold"
    };
    json!({
        "clause": verdict.clause.to_string(),
        "declared": declared,
        "holds": verdict.holds,
        "found": kind,
        "value": value,
        "message": format!("{subject} {what}: {} {verb}", verdict.clause),
    })
}

/// The kind of a value, and the value itself if it can be shown.
fn found(found: &Found<'_>) -> (&'static str, Value) {
    match found {
        Found::Absent => ("Absent", Value::Null),
        Found::Null => ("Null", Value::Null),
        Found::Text(text) => ("Text", json!(text)),
        Found::Number(text) => ("Number", serde_json::from_str(text).unwrap_or_default()),
        Found::Bool(value) => ("Bool", json!(value)),
        Found::Array { .. } => ("Array", Value::Null),
        Found::Object => ("Object", Value::Null),
    }
}
