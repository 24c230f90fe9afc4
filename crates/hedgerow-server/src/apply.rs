//! Declares many things at once: origin groups and routes, topics and domains, then event subscriptions. Everything is judged before anything is declared, so that a
//! mistake leaves all as it was; what is declared already as it should be is left alone, and nothing is deleted.
//!
//! Everything is durable before anybody waits for an endpoint: [`begin`] declares, and the engine asks the endpoints beside
//! each other ([`limits::HANDSHAKES_MAX`](hedgerow_core::limits::HANDSHAKES_MAX)). Declared again, an endpoint is asked again
//! only if it did not consent.
//!
//! Declarations are JSON: `originGroups`, `routes`, `topics`, `domains` and `eventSubscriptions`, lists of what the API's PUT takes, each with its `name`,
//! subscriptions with their `topic`, which is a domain or a topic of one (`DOMAIN/topics/TOPIC`) too, topics and domains with `keys` if
//! they are to have these and no random ones, and domains with `topics` that they are to have. [`files`] reads them
//! out of TOML.

pub mod files;
mod judge;

use std::fmt;
use std::sync::Arc;

use hedgerow_core::name::{
    DomainTopicName, OriginGroupName, RouteName, SubscriptionName, TopicName,
};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec, Warning};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_delivery::declare::{Declared, SubscriptionDeclaration};
use hedgerow_delivery::origin_groups::{Put, Wish};
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use hedgerow_store::catalog::{Provisioning, Subscription, ValidationState, split_source};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::access::Grant;
use crate::admin::{declare_subscription, many_probes, validation_failure};
use crate::error::ApiError;
use crate::handle::HandleError;
use crate::state::{App, SharedApp};

/// A member that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its path, such as `eventSubscriptions[0].retryPolicy.maxDeliveryAttempts`; empty for the whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Why nothing was declared, or not everything.
#[derive(Debug)]
pub enum ApplyError {
    /// Something is wrong; nothing was declared.
    Invalid(Vec<Fault>),
    /// Everything was right, and something is not in force all the same: an endpoint that did not consent, a limit, a store
    /// that failed. Apply it again when the cause is gone.
    Incomplete {
        /// What was declared.
        done: Vec<Applied>,
        /// What was not, or did not come into force.
        failed: Vec<Fault>,
        /// What of the one and the other will surprise.
        warnings: Vec<Fault>,
    },
    /// The server ended, or is not there yet.
    Unavailable(String),
}

/// What became of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// `topic orders` or `event subscription orders/billing`.
    pub what: String,
    /// What was done.
    pub change: AppliedChange,
    /// How far a subscription's newest declaration has come, when that was looked at last.
    pub provisioning: Option<Provisioning>,
    /// What of its declaration will surprise.
    pub warnings: Vec<Fault>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliedChange {
    /// It is new.
    Created,
    /// It was there, and is otherwise now.
    Changed,
    /// It was there as it should be, and its endpoint had not consented: it is asked anew.
    AskedAgain,
    /// It was there as it should be.
    Unchanged,
}

impl AppliedChange {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::AskedAgain => "asked again",
            Self::Unchanged => "unchanged",
        }
    }
}

impl Applied {
    /// What was done, and what is still to come.
    #[must_use]
    pub fn told(&self) -> String {
        let state = self.provisioning.map_or("", Provisioning::as_str);
        format!("{self}{}", still_to_come(state))
    }

    /// The same to somebody who is told of the endpoint's answer later.
    #[must_use]
    pub fn told_at_once(&self) -> String {
        match self.provisioning {
            Some(Provisioning::Creating) => self.to_string(),
            _ => self.told(),
        }
    }
}

/// What is to be said behind a subscription in this provisioning state; nothing if it is in force.
#[must_use]
pub fn still_to_come(provisioning_state: &str) -> &'static str {
    match provisioning_state {
        "Creating" => "; Creating: its endpoint has not answered the handshake yet",
        "AwaitingManualAction" => {
            "; AwaitingManualAction: somebody has to open the URL that its endpoint was sent"
        }
        _ => "",
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.change.as_str())
    }
}

/// What is to be declared, judged.
struct Plan {
    groups: Vec<PlannedGroup>,
    routes: Vec<PlannedRoute>,
    topics: Vec<PlannedTopic>,
    subscriptions: Vec<PlannedSubscription>,
}

/// A topic, or a domain.
struct PlannedTopic {
    path: String,
    name: TopicName,
    spec: TopicSpec,
    /// Of a domain: the topics that it is to have.
    domain_topics: Vec<DomainTopicName>,
    key1: Option<String>,
    key2: Option<String>,
    warnings: Vec<Warning>,
}

struct PlannedGroup {
    path: String,
    name: OriginGroupName,
    group: Box<Group>,
}

struct PlannedRoute {
    path: String,
    name: RouteName,
    route: Box<RouteSettings>,
}

struct PlannedSubscription {
    path: String,
    topic: String,
    name: SubscriptionName,
    spec: Box<SubscriptionSpec>,
    /// What its secrets were taken of, if it keeps some.
    expected: Option<Box<SubscriptionSpec>>,
    warnings: Vec<Warning>,
}

/// Warnings of a declaration at `path`.
fn located(path: &str, warnings: Vec<Warning>) -> Vec<Fault> {
    let located = warnings.into_iter().map(|warning| Fault {
        path: format!("{path}.{}", warning.field),
        message: warning.message,
    });
    located.collect()
}

/// What was declared, durably, while endpoints may still be asked.
#[derive(Debug)]
pub struct Begun {
    /// What was declared.
    pub done: Vec<Applied>,
    /// What was not.
    pub failed: Vec<Fault>,
    /// What of that would surprise.
    pub warnings: Vec<Fault>,
    /// Subscriptions whose endpoints are being asked; all of them are among those that were declared.
    pub asked: Vec<Asked>,
}

/// A subscription whose endpoint is being asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// As in [`Applied::what`].
    pub what: String,
    /// Where it stands in the declarations.
    pub path: String,
    id: SubscriptionId,
    name: String,
}

/// What an endpoint came to.
#[derive(Debug, Clone)]
pub enum Answered {
    /// It consented.
    Consented,
    /// It answered, and somebody has to open the URL that it was sent.
    ByHand {
        /// From then on that is too late.
        until: Timestamp,
    },
    /// It did not consent; says why. Or the subscription was deleted meanwhile.
    Failed(String),
}

impl Answered {
    fn of(ended: Result<&Subscription, &CommandError>) -> Self {
        let subscription = match ended {
            Ok(subscription) => subscription,
            Err(error) => return Self::Failed(error.to_string()),
        };
        match (subscription.newest_provisioning(), &subscription.validation) {
            (Provisioning::Failed, _) => Self::Failed(validation_failure(subscription)),
            (_, Some(validation)) => match validation.state {
                ValidationState::AwaitingManualAction { until, .. } => Self::ByHand { until },
                _ => Self::Consented,
            },
            (_, None) => Self::Consented,
        }
    }
}

/// Declares what `declarations` say, with what a grant allows, and waits for the endpoints, for `validation.answer_wait` in
/// all. Those that take longer are asked on.
pub async fn apply(
    app: &App,
    grant: &Grant,
    declarations: &Value,
) -> Result<Vec<Applied>, ApplyError> {
    let mut begun = begin(app, grant, declarations).await?;
    begun.wait(app).await;
    let Begun {
        done,
        failed,
        warnings,
        ..
    } = begun;
    if failed.is_empty() {
        return Ok(done);
    }
    let of_done = done.iter().flat_map(|applied| applied.warnings.clone());
    Err(ApplyError::Incomplete {
        warnings: of_done.chain(warnings).collect(),
        done,
        failed,
    })
}

/// Declares what `declarations` say, with what a grant allows, and waits for no endpoint.
pub async fn begin(app: &App, grant: &Grant, declarations: &Value) -> Result<Begun, ApplyError> {
    let plan = judge::judge(app, grant, declarations).await?;
    let mut begun = Begun {
        done: Vec::new(),
        failed: Vec::new(),
        warnings: Vec::new(),
        asked: Vec::new(),
    };
    // One that fails keeps none of the others from being declared. Groups come before what names them.
    for group in plan.groups {
        let path = group.path.clone();
        let applied = group.declare(app).await;
        begun.note(path, Vec::new(), applied.map(|applied| (applied, None)));
    }
    for route in plan.routes {
        let path = route.path.clone();
        let applied = route.declare(app).await;
        begun.note(path, Vec::new(), applied.map(|applied| (applied, None)));
    }
    for mut topic in plan.topics {
        let path = topic.path.clone();
        let warnings = located(&path, std::mem::take(&mut topic.warnings));
        let applied = topic.declare(app).await;
        begun.note(path, warnings, applied.map(|applied| (applied, None)));
    }
    for mut subscription in plan.subscriptions {
        let path = subscription.path.clone();
        let warnings = located(&path, subscription.take_warnings(app));
        let applied = subscription.declare(app).await;
        begun.note(path, warnings, applied);
    }
    Ok(begun)
}

impl Begun {
    fn note(
        &mut self,
        path: String,
        warnings: Vec<Fault>,
        applied: Result<(Applied, Option<Asked>), ApiError>,
    ) {
        match applied {
            Ok((mut applied, asked)) => {
                applied.warnings.splice(0..0, warnings);
                self.done.push(applied);
                self.asked.extend(asked);
            }
            Err(error) => {
                self.warnings.extend(warnings);
                self.failed.push(Fault {
                    path,
                    message: error.message().to_owned(),
                });
            }
        }
    }

    /// Waits for the endpoints and notes what they came to. They are asked beside each other, and so one time holds for all.
    async fn wait(&mut self, app: &App) {
        let until = tokio::time::Instant::now() + app.validation_answer_wait;
        let Ok(engine) = app.engine() else {
            return;
        };
        let mut waiting = JoinSet::new();
        for asked in std::mem::take(&mut self.asked) {
            let engine = engine.clone();
            waiting.spawn(async move {
                let ended = engine.await_validation(asked.id, asked.name.clone()).await;
                (asked, ended)
            });
        }
        // What has not ended by then is asked on, and so is everything by the next engine if this one ends.
        while let Ok(Some(joined)) = tokio::time::timeout_at(until, waiting.join_next()).await {
            match joined {
                Ok((_, Err(CommandError::Unavailable))) | Err(_) => {}
                Ok((asked, Ok(info))) => self.answered(asked, Ok(&info.subscription)),
                Ok((asked, Err(error))) => self.answered(asked, Err(&error)),
            }
        }
        // In the order of the declarations: a longer path of a list's members has a higher number.
        self.failed
            .sort_by(|a, b| (a.path.len(), &a.path).cmp(&(b.path.len(), &b.path)));
    }

    fn answered(&mut self, asked: Asked, ended: Result<&Subscription, &CommandError>) {
        let is_it = |applied: &Applied| applied.what == asked.what;
        if let Answered::Failed(message) = Answered::of(ended) {
            if let Some(at) = self.done.iter().position(is_it) {
                self.warnings.extend(self.done.remove(at).warnings);
            }
            let path = asked.path;
            self.failed.push(Fault { path, message });
        } else if let Some(applied) = self.done.iter_mut().find(|applied| is_it(applied)) {
            applied.provisioning = ended.ok().map(Subscription::newest_provisioning);
        }
    }
}

/// A thing without conditions, as it was declared.
fn applied_as(what: String, put: Put) -> Applied {
    let change = match put {
        Put::Created => AppliedChange::Created,
        Put::Changed => AppliedChange::Changed,
        Put::Unchanged => AppliedChange::Unchanged,
    };
    tracing::info!(what, change = change.as_str(), "applied");
    Applied {
        what,
        change,
        provisioning: None,
        warnings: Vec::new(),
    }
}

impl PlannedGroup {
    async fn declare(self, app: &App) -> Result<Applied, ApiError> {
        let engine = app.engine()?;
        let wish = Wish {
            name: self.name,
            wanted: self.group,
            expected: None,
            is_dry_run: false,
        };
        let done = engine.put_origin_group(wish).await?;
        let mut applied = applied_as(format!("origin group {}", done.name), done.put);
        let group = &done.declared.group;
        let many = many_probes(app, &engine.origins(), &done.name, group);
        applied.warnings = located(&self.path, many);
        Ok(applied)
    }
}

impl PlannedRoute {
    async fn declare(self, app: &App) -> Result<Applied, ApiError> {
        let wish = Wish {
            name: self.name,
            wanted: self.route,
            expected: None,
            is_dry_run: false,
        };
        let done = app.engine()?.put_route(wish).await?;
        Ok(applied_as(format!("route {}", done.name), done.put))
    }
}

impl PlannedTopic {
    async fn declare(self, app: &App) -> Result<Applied, ApiError> {
        let engine = app.engine()?;
        let name = self.name.to_string();
        let before = engine
            .ask(|answer| Command::Topic {
                name: name.clone(),
                answer,
            })
            .await;
        let before = found(before)?.map(|topic| topic.spec);
        let (topic, is_new) = engine
            .ask(|answer| Command::PutTopic {
                name: self.name,
                spec: self.spec,
                answer,
            })
            .await?;
        let has_keys = self.key1.is_some() || self.key2.is_some();
        let has_other_keys = has_keys
            && engine
                .ask(|answer| Command::SetKeys {
                    name: name.clone(),
                    key1: self.key1,
                    key2: self.key2,
                    answer,
                })
                .await?;
        let mut has_other_topics = false;
        for topic in self.domain_topics {
            let put = |answer| Command::PutDomainTopic {
                domain: name.clone(),
                name: topic,
                answer,
            };
            let (_, is_new) = engine.ask(put).await?;
            has_other_topics |= is_new;
        }
        let is_other = has_other_keys || has_other_topics;
        let change = match before {
            _ if is_new => AppliedChange::Created,
            Some(before) if before == topic.spec && !is_other => AppliedChange::Unchanged,
            _ => AppliedChange::Changed,
        };
        tracing::info!(topic = name, change = change.as_str(), "applied");
        let kind = if topic.is_domain() { "domain" } else { "topic" };
        let what = format!("{kind} {name}");
        Ok(Applied {
            what,
            change,
            provisioning: None,
            warnings: Vec::new(),
        })
    }
}

impl PlannedSubscription {
    /// What of it will surprise, among the events of the topic that there is now.
    fn take_warnings(&mut self, app: &App) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let Ok(engine) = app.engine() else {
            return warnings;
        };
        let topics = engine.topics();
        let (topic, _) = split_source(&self.topic);
        if let Some(topic) = topics.get(&topic.to_ascii_lowercase()) {
            let input = topic.spec.input_schema;
            warnings.extend(self.spec.key_warnings(input));
        }
        warnings
    }

    async fn declare(self, app: &App) -> Result<(Applied, Option<Asked>), ApiError> {
        let name = self.name.to_string();
        let what = format!("event subscription {}/{name}", self.topic);
        let engine = app.engine()?;
        let declaration = SubscriptionDeclaration {
            topic: self.topic,
            name: self.name,
            spec: self.spec,
            expected: self.expected,
        };
        let made = declare_subscription(&engine, declaration).await?;
        let problem = made.dead_letter_problem.map(|message| Warning {
            field: "deadLetterDestination".to_owned(),
            message,
        });
        let provisioning = made.info.subscription.newest_provisioning();
        let asked = (provisioning == Provisioning::Creating).then(|| Asked {
            what: what.clone(),
            path: self.path.clone(),
            id: made.info.subscription.id,
            name,
        });
        let change = match made.declared {
            Declared::Created => AppliedChange::Created,
            Declared::Changed => AppliedChange::Changed,
            Declared::AskedAgain { .. } => AppliedChange::AskedAgain,
            Declared::Unchanged => AppliedChange::Unchanged,
        };
        let provisioning = Some(provisioning);
        let applied = Applied {
            what,
            change,
            provisioning,
            warnings: located(&self.path, problem.into_iter().collect()),
        };
        Ok((applied, asked))
    }
}

fn found<T>(answer: Result<T, CommandError>) -> Result<Option<T>, CommandError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CommandError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Applies declarations in the process that runs the server, with every right. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    app: SharedApp,
    handle: crate::handle::ServerHandle,
}

impl Applier {
    pub(crate) const fn new(app: SharedApp, handle: crate::handle::ServerHandle) -> Self {
        Self { app, handle }
    }

    /// Waits until the store is open, then declares what `declarations` say. Waits for no endpoint.
    ///
    /// # Errors
    /// What is wrong with them, or what went wrong; never [`ApplyError::Incomplete`].
    pub async fn begin(&self, declarations: &Value) -> Result<Begun, ApplyError> {
        let ready = self.handle.ready().await;
        ready.map_err(|error: HandleError| ApplyError::Unavailable(error.to_string()))?;
        let grant: Arc<Grant> = self.app.tokens.first_grant();
        begin(&self.app, &grant, declarations).await
    }

    /// Waits for the endpoints that are being asked, and tells what each came to as soon as it has; ends when all have, or
    /// the server.
    pub async fn follow(&self, asked: Vec<Asked>, mut tell: impl FnMut(&Asked, Answered)) {
        let mut waiting = JoinSet::new();
        for asked in asked {
            let handle = self.handle.clone();
            waiting.spawn(async move {
                let ended = handle.await_validation(asked.id, &asked.name).await;
                (asked, ended)
            });
        }
        while let Some(joined) = waiting.join_next().await {
            match joined {
                Ok((asked, Ok(subscription))) => tell(&asked, Answered::of(Ok(&subscription))),
                Ok((asked, Err(HandleError::Refused(error)))) => {
                    tell(&asked, Answered::of(Err(&error)));
                }
                // The server ended, and the next one asks on.
                Ok((_, Err(_))) | Err(_) => return,
            }
        }
    }
}
