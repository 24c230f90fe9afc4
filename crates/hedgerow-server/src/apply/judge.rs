//! Judges declarations whole: every fault is found before anything is declared.

mod origins;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::limits;
use hedgerow_core::name::{DomainTopicName, SubscriptionName, TopicName};
use hedgerow_core::spec::{Profile, SpecError, SubscriptionSpec, TopicSpec};
use hedgerow_core::text::beginning;
use hedgerow_delivery::command::{Command, CommandError, EngineHandle};
use hedgerow_store::catalog::split_source;
use serde_json::{Map, Value, json};

use super::files::SECTIONS;
use super::{ApplyError, Fault, Plan, PlannedSubscription, PlannedTopic};
use crate::access::Grant;
use crate::admin::{complete_subscription, keep_secrets, profile_of};
use crate::state::{App, Phase, Unavailable};

/// Faults of one declaration that are told.
const FAULTS_OF_ONE_MAX: usize = 100;

/// The faults found so far.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (path.into(), message.into());
        self.0.push(Fault { path, message });
    }

    /// A fault of a declaration at `path`.
    fn add_spec(&mut self, path: &str, error: SpecError) {
        let path = match error.field.as_str() {
            "" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        self.add(path, error.message);
    }
}

/// Judges everything.
pub async fn judge(app: &App, grant: &Grant, declarations: &Value) -> Result<Plan, ApplyError> {
    let unavailable = |error: Unavailable| ApplyError::Unavailable(error.to_string());
    let engine = app.engine().map_err(unavailable)?;
    let mut faults = Faults::default();
    let mut plan = Plan {
        groups: Vec::new(),
        routes: Vec::new(),
        topics: Vec::new(),
        subscriptions: Vec::new(),
    };
    let Some(members) = declarations.as_object() else {
        return Err(ApplyError::Invalid(vec![Fault {
            path: String::new(),
            message: "must be an object".to_owned(),
        }]));
    };
    for name in members.keys() {
        if !SECTIONS.contains(&name.as_str()) {
            let name = beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX);
            let known = format!("is unknown here; known are {}", SECTIONS.join(", "));
            faults.add(name, known);
        }
    }
    origins::judge(&engine, members, grant, &mut plan, &mut faults);
    let topics = items(members, "topics", &mut Faults::default());
    let domains = items(members, "domains", &mut Faults::default());
    let declared: Vec<_> = topics
        .iter()
        .chain(&domains)
        .filter_map(|(_, topic)| Some(topic.get("name")?.as_str()?.to_ascii_lowercase()))
        .collect();
    for (path, members) in items(members, "topics", &mut faults) {
        if let Some(topic) = topic(&path, members, false, grant, &mut faults) {
            plan.topics.push(topic);
        }
    }
    for (path, members) in items(members, "domains", &mut faults) {
        if let Some(domain) = topic(&path, members, true, grant, &mut faults) {
            plan.topics.push(domain);
        }
    }
    for (path, members) in items(members, "eventSubscriptions", &mut faults) {
        let source = members
            .get("topic")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let profile = profile(&engine, &plan, source);
        let judging = subscription(app, &engine, &path, members, profile, grant, &mut faults);
        if let Some(subscription) = judging.await? {
            plan.subscriptions.push(subscription);
        } else if let Some(Value::String(topic)) = members.get("topic") {
            // What is wrong besides does not hide that its topic is none.
            let (topic, _) = split_source(topic);
            let is_declared = declared.contains(&topic.to_ascii_lowercase());
            if !is_declared && topic.parse::<TopicName>().is_ok() {
                ask_for_topic(app, &engine, topic, &path, &mut faults).await?;
            }
        }
    }
    refuse_doubles(&plan, &mut faults);
    ask(app, &engine, &plan, &mut faults).await?;
    if faults.0.is_empty() {
        Ok(plan)
    } else {
        Err(ApplyError::Invalid(faults.0))
    }
}

/// The objects of a list, each with its path.
fn items<'a>(
    members: &'a Map<String, Value>,
    name: &str,
    faults: &mut Faults,
) -> Vec<(String, &'a Map<String, Value>)> {
    let list = match members.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => {
            faults.add(name, "must be a list");
            return Vec::new();
        }
    };
    let mut items = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let path = format!("{name}[{index}]");
        match item.as_object() {
            Some(item) => items.push((path, item)),
            None => faults.add(path, "must be an object"),
        }
    }
    items
}

/// A topic, or a domain.
fn topic(
    path: &str,
    members: &Map<String, Value>,
    is_domain: bool,
    grant: &Grant,
    faults: &mut Faults,
) -> Option<PlannedTopic> {
    let mut members = members.clone();
    let name = name(&mut members, path, "name", faults);
    let fixed = members.remove("keys").unwrap_or(Value::Null);
    let [key1, key2] = keys_of(&fixed, &format!("{path}.keys"), faults);
    let mut domain_topics = Vec::new();
    let check = if is_domain {
        let topics = members.remove("topics").unwrap_or(Value::Null);
        domain_topics = topics_of(&topics, &format!("{path}.topics"), faults);
        TopicSpec::check_domain
    } else {
        TopicSpec::check
    };
    let checked = every_fault(Value::Object(members), path, faults, check);
    let name: TopicName = parsed(&name?, &format!("{path}.name"), faults)?;
    if !grant.reaches(name.as_str()) {
        faults.add(format!("{path}.name"), beyond(grant));
    }
    let checked = checked?;
    if checked.spec.source.is_some() && !grant.is_whole() {
        faults.add(format!("{path}.source"), beyond(grant));
    }
    if name.is_built_in() {
        faults.add(format!("{path}.name"), "is the name of a built-in topic");
    }
    Some(PlannedTopic {
        path: path.to_owned(),
        name,
        spec: checked.spec,
        domain_topics,
        warnings: checked.warnings,
        key1,
        key2,
    })
}

/// The profile of what a subscription is made for, as it is declared with it or is there.
fn profile(engine: &EngineHandle, plan: &Plan, source: &str) -> Option<Profile> {
    let (name, _) = split_source(source);
    let mut declared = plan.topics.iter();
    match declared.find(|topic| topic.name.as_str().eq_ignore_ascii_case(name)) {
        Some(topic) => topic.spec.profile,
        None => profile_of(engine, source),
    }
}

async fn subscription(
    app: &App,
    engine: &EngineHandle,
    path: &str,
    members: &Map<String, Value>,
    profile: Option<Profile>,
    grant: &Grant,
    faults: &mut Faults,
) -> Result<Option<PlannedSubscription>, ApplyError> {
    let mut members = members.clone();
    let topic = name(&mut members, path, "topic", faults);
    let name = name(&mut members, path, "name", faults);
    let mut body = Value::Object(members);
    complete_subscription(app, profile, &mut body);
    let kept = match (&topic, &name) {
        (Some(topic), Some(name)) if grant.reaches(topic) => {
            match keep_secrets(engine, topic, name, &mut body).await {
                Ok(kept) => kept,
                Err(CommandError::Invalid(error)) => {
                    faults.add_spec(path, error);
                    return Ok(None);
                }
                Err(error) => return Err(not_available(app, &error)),
            }
        }
        _ => None,
    };
    let checked = every_fault(body, path, faults, SubscriptionSpec::check);
    let topic = topic.and_then(|topic| source(topic, &format!("{path}.topic"), faults));
    let name: Option<SubscriptionName> =
        name.and_then(|name| parsed(&name, &format!("{path}.name"), faults));
    let Some(topic) = topic else {
        return Ok(None);
    };
    if !grant.reaches(&topic) {
        faults.add(format!("{path}.topic"), beyond(grant));
    }
    let (Some(checked), Some(name)) = (checked, name) else {
        return Ok(None);
    };
    Ok(Some(PlannedSubscription {
        path: path.to_owned(),
        topic,
        name,
        spec: Box::new(checked.spec),
        expected: kept.map(Box::new),
        warnings: checked.warnings,
    }))
}

/// The name of what a subscription is made for.
fn source(named: String, path: &str, faults: &mut Faults) -> Option<String> {
    let (topic, domain_topic) = split_source(&named);
    parsed::<TopicName>(topic, path, faults)?;
    if let Some(name) = domain_topic {
        parsed::<DomainTopicName>(name, path, faults)?;
    }
    Some(named)
}

/// The topics that a domain is to have.
fn topics_of(list: &Value, path: &str, faults: &mut Faults) -> Vec<DomainTopicName> {
    let names = match list {
        Value::Null => return Vec::new(),
        Value::Array(names) => names,
        _ => {
            faults.add(path, "must be a list");
            return Vec::new();
        }
    };
    let names = names.iter().enumerate();
    let names = names.filter_map(|(index, name)| {
        let path = format!("{path}[{index}]");
        let Some(name) = name.as_str() else {
            faults.add(path, "must be a text");
            return None;
        };
        parsed(name, &path, faults)
    });
    names.collect()
}

/// Checks a declaration, and tells each of its faults: what was wrong is taken out, or replaced by something right where it has
/// to be there, and the rest is checked again. Of a destination and of one advanced filter the first fault is told.
fn every_fault<T>(
    mut body: Value,
    path: &str,
    faults: &mut Faults,
    check: impl Fn(&Value) -> Result<T, SpecError>,
) -> Option<T> {
    let mut told: Vec<String> = Vec::new();
    loop {
        let error = match check(&body) {
            Ok(checked) => return Some(checked).filter(|_| told.is_empty()),
            Err(error) => error,
        };
        let field = error.field.clone();
        let is_new = !told.contains(&field) && told.len() < FAULTS_OF_ONE_MAX;
        if !is_new {
            return None;
        }
        faults.add_spec(path, error);
        if !without(&mut body, &field) {
            return None;
        }
        told.push(field);
    }
}

/// Takes a member that is wrong out of a declaration; `false` if that cannot be done.
fn without(body: &mut Value, field: &str) -> bool {
    if field == "destination" || field.starts_with("destination.") {
        body["destination"] = json!({
            "endpointType": "WebHook",
            "properties": { "endpointUrl": "https://example.com/" },
        });
        return true;
    }
    let advanced = field
        .strip_prefix("filter.advancedFilters[")
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(index, _)| index.parse::<usize>().ok());
    if let Some(index) = advanced {
        let place = body
            .pointer_mut("/filter/advancedFilters")
            .and_then(|filters| filters.get_mut(index));
        let right = json!({ "operatorType": "IsNotNull", "key": "data.x" });
        return place.map(|place| *place = right).is_some();
    }
    // What stands in a list is taken out with its list: the indexes of the others stay true.
    let member = field.split('[').next().unwrap_or_default();
    let (of, name) = member.rsplit_once('.').unwrap_or(("", member));
    let of = match of {
        "" => String::new(),
        of => format!("/{}", of.replace('.', "/")),
    };
    let object = body.pointer_mut(&of).and_then(Value::as_object_mut);
    object.and_then(|object| object.remove(name)).is_some()
}

/// Says that a topic is none, of a subscription that is wrong besides.
async fn ask_for_topic(
    app: &App,
    engine: &EngineHandle,
    topic: &str,
    path: &str,
    faults: &mut Faults,
) -> Result<(), ApplyError> {
    let name = topic.to_owned();
    match engine.ask(|answer| Command::Topic { name, answer }).await {
        Ok(_) => {}
        Err(error @ CommandError::NotFound { .. }) => {
            faults.add(format!("{path}.topic"), error.to_string());
        }
        Err(error) => return Err(not_available(app, &error)),
    }
    Ok(())
}

fn beyond(grant: &Grant) -> String {
    let prefix = grant.prefix.as_str();
    format!("the token holds for topics that begin with \"{prefix}\" only")
}

/// Takes a name out of a declaration.
fn name(
    members: &mut Map<String, Value>,
    path: &str,
    member: &str,
    faults: &mut Faults,
) -> Option<String> {
    match members.remove(member) {
        Some(Value::String(name)) => Some(name),
        None | Some(Value::Null) => {
            faults.add(format!("{path}.{member}"), "is required");
            None
        }
        Some(_) => {
            faults.add(format!("{path}.{member}"), "must be a text");
            None
        }
    }
}

fn parsed<T: std::str::FromStr>(text: &str, path: &str, faults: &mut Faults) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    let parsed = text.parse();
    parsed
        .map_err(|error: T::Err| faults.add(path, error.to_string()))
        .ok()
}

/// Keys that a topic is to have. Publishers decode them to sign, so they must be base64 (AZ-017).
fn keys_of(keys: &Value, path: &str, faults: &mut Faults) -> [Option<String>; 2] {
    let mut found = [None, None];
    let members = match keys {
        Value::Null => return found,
        Value::Object(members) => members,
        _ => {
            faults.add(path, "must be an object");
            return found;
        }
    };
    for (name, key) in members {
        let place = match name.as_str() {
            "key1" => &mut found[0],
            "key2" => &mut found[1],
            _ => {
                let name = beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX);
                faults.add(
                    format!("{path}.{name}"),
                    "is unknown here; known are key1, key2",
                );
                continue;
            }
        };
        let bytes = key.as_str().and_then(|key| STANDARD.decode(key).ok());
        if bytes.is_some_and(|bytes| limits::FIXED_KEY_BYTES.contains(&bytes.len())) {
            *place = key.as_str().map(str::to_owned);
        } else {
            let range = limits::FIXED_KEY_BYTES;
            let message = format!(
                "must be the base64 of {} to {} random bytes",
                range.start(),
                range.end()
            );
            faults.add(format!("{path}.{name}"), message);
        }
    }
    found
}

fn refuse_doubles(plan: &Plan, faults: &mut Faults) {
    let groups = plan.groups.iter();
    let groups = groups.map(|found| (format!("group {}", found.name), &found.path));
    let routes = plan.routes.iter();
    let routes = routes.map(|found| (format!("route {}", found.name), &found.path));
    let origins = groups.chain(routes);
    let origins = origins.map(|(name, path)| (name.to_ascii_lowercase(), path));
    let topics = plan.topics.iter();
    let topics = topics.map(|topic| (topic.name.as_str().to_ascii_lowercase(), &topic.path));
    let subscriptions = plan.subscriptions.iter().map(|found| {
        let name = format!("{}/{}", found.topic, found.name);
        (name.to_ascii_lowercase(), &found.path)
    });
    let mut seen: HashMap<String, &String> = HashMap::new();
    for (name, path) in origins.chain(topics).chain(subscriptions) {
        match seen.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(path)),
            Entry::Occupied(first) => {
                let message = format!("is declared already, as {}", first.get());
                faults.add(format!("{path}.name"), message);
            }
        }
    }
}

/// Asks the engine what would keep it from declaring this.
async fn ask(
    app: &App,
    engine: &EngineHandle,
    plan: &Plan,
    faults: &mut Faults,
) -> Result<(), ApplyError> {
    for topic in &plan.topics {
        let get = |answer| Command::Topic {
            name: topic.name.to_string(),
            answer,
        };
        match engine.ask(get).await {
            Ok(present) if present.is_domain() != topic.spec.domain.is_some() => {
                let is = if present.is_domain() {
                    "domain"
                } else {
                    "topic"
                };
                let message = format!("is the name of a {is} that there is");
                faults.add(format!("{}.name", topic.path), message);
            }
            Ok(present) => {
                if let Err(error) = present.spec.check_change(&topic.spec) {
                    faults.add_spec(&topic.path, error);
                }
            }
            Err(error @ CommandError::Unavailable) => return Err(not_available(app, &error)),
            // It is new, or what stands in its way is told when it is declared.
            Err(_) => {}
        }
    }
    for subscription in &plan.subscriptions {
        let mut topics = plan.topics.iter();
        let (of, domain_topic) = split_source(&subscription.topic);
        let new_topic = topics.find(|topic| topic.name.as_str().eq_ignore_ascii_case(of));
        let is_new = |topic: &PlannedTopic| {
            let mut names = topic.domain_topics.iter();
            domain_topic
                .is_some_and(|name| names.any(|topic| topic.as_str().eq_ignore_ascii_case(name)))
        };
        let check = |answer| Command::CheckSubscription {
            topic: subscription.topic.clone(),
            new_topic: new_topic.map(|topic| topic.spec.clone()),
            has_new_domain_topic: new_topic.is_some_and(is_new),
            has_new_group: has_new_group(plan, &subscription.spec),
            name: subscription.name.clone(),
            spec: subscription.spec.clone(),
            answer,
        };
        match engine.ask(check).await {
            Err(CommandError::Invalid(error)) => faults.add_spec(&subscription.path, error),
            Err(error @ CommandError::NotFound { .. }) => {
                faults.add(format!("{}.topic", subscription.path), error.to_string());
            }
            Err(error @ CommandError::Unavailable) => return Err(not_available(app, &error)),
            // It is right; if it cannot be declared now that is told by itself then, while the others come into force.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Whether the group that a subscription delivers to is declared before it.
fn has_new_group(plan: &Plan, spec: &SubscriptionSpec) -> bool {
    let group = spec.destination.origin_group();
    group.is_some_and(|name| plan.groups.iter().any(|planned| planned.name == *name))
}

/// An engine that was there and does not answer any more ends: for good, or for another.
fn not_available(app: &App, error: &CommandError) -> ApplyError {
    let message = match app.phase() {
        Phase::Stopping => Unavailable(Phase::Stopping).to_string(),
        Phase::Serving | Phase::Recovering => error.to_string(),
    };
    ApplyError::Unavailable(message)
}
