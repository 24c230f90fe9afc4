//! What operators do.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::dead_letter::BlobName;
use hedgerow_core::spec::ReplaySpec;
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_delivery::replay::{ReplayCommand, ReplayInfo, ReplaySteer};
use hedgerow_store::catalog::ReplayState;
use serde_json::json;

use super::{AGAIN, TRIES, put};
use crate::plan::{Act, Plan, ReplayPlan};
use crate::world::{Front, World};

/// Does what operators do.
pub async fn operate(world: Arc<World>) {
    for (at, act) in &world.plan.acts {
        world.sleep_until(*at).await;
        for _ in 0..TRIES {
            let outcome = perform(&world, *act).await;
            world.note(format_args!("{act:?}: {outcome:?}"));
            if outcome.is_ok() || outcome.is_err_and(|error| error == NOTHING_TO_STEER) {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Ends every pause, lets every replay go on that was stopped, and has every endpoint asked again that did not consent: what is held by one never ends by itself.
pub async fn resume_all(world: &Arc<World>) -> Result<(), String> {
    for (whose, plan) in world.plan.subscriptions.iter().enumerate() {
        if !world.oracle().is_declared(&plan.name) {
            continue;
        }
        perform(world, Act::Resume(whose)).await?;
        if world.oracle().is_unconsented(&plan.name) {
            // Its endpoint is asked again.
            put(world, plan, &plan.json).await?;
        }
        if let Err(error) = perform(world, Act::Steer(whose, ReplaySteer::Resume)).await
            && error != NOTHING_TO_STEER
        {
            return Err(error);
        }
    }
    Ok(())
}

async fn perform(world: &Arc<World>, act: Act) -> Result<(), String> {
    let front = world.front().ok_or("nobody serves")?;
    let names = |whose: usize| {
        let plan = &world.plan.subscriptions[whose];
        (world.plan.source(plan), plan.name.clone())
    };
    let pause = async |whose: usize, is_paused: bool| {
        let (topic, name) = names(whose);
        let asked = front.handle.ask(|answer| Command::PauseSubscription {
            topic,
            name,
            is_paused,
            answer,
        });
        asked.await.map(drop)
    };
    let done = match act {
        Act::Pause(whose) => pause(whose, true).await,
        Act::Resume(whose) => pause(whose, false).await,
        Act::Reset(whose) => {
            let (topic, name) = names(whose);
            let asked = front.handle.ask(|answer| Command::ResetSubscription {
                topic,
                name,
                answer,
            });
            asked.await.map(drop)
        }
        Act::Purge(whose) => {
            let (topic, name) = names(whose);
            let asked = front.handle.ask(|answer| Command::PurgeSubscription {
                topic,
                name,
                answer,
            });
            asked.await.map(drop)
        }
        Act::Limits(whose, attempts, minutes) => {
            let plan = &world.plan.subscriptions[whose];
            let mut json = plan.json.clone();
            json["retryPolicy"] = json!({
                "maxDeliveryAttempts": attempts,
                "eventTimeToLiveInMinutes": minutes,
            });
            return put(world, plan, &json).await;
        }
        Act::Delete(whose) => return delete(world, &world.plan.subscriptions[whose].name).await,
        Act::Declare(whose) => {
            let plan = &world.plan.subscriptions[whose];
            return put(world, plan, &plan.json).await;
        }
        Act::Move(whose, endpoint) => {
            let plan = &world.plan.subscriptions[whose];
            let host = &world.plan.endpoints[endpoint].host;
            let mut json = plan.json.clone();
            let url = Plan::url(host, &plan.name);
            json["destination"]["properties"]["endpointUrl"] = url.into();
            return put(world, plan, &json).await;
        }
        Act::Replay(whose, replay) => return begin_replay(world, &front, whose, replay).await,
        Act::Steer(whose, steer) => return steer_replay(world, &front, whose, steer).await,
    };
    done.map_err(|error| error.to_string())
}

/// Deletes the subscription of this name.
pub async fn delete(world: &Arc<World>, name: &str) -> Result<(), String> {
    let front = world.front().ok_or("nobody serves")?;
    let plans = &world.plan.subscriptions;
    let plan = plans.iter().find(|plan| plan.name == name);
    let plan = plan.ok_or("there is none")?;
    world.oracle().asked_to_delete(name);
    let asked = front.handle.ask(|answer| Command::DeleteSubscription {
        topic: world.plan.source(plan),
        name: name.to_owned(),
        answer,
    });
    asked.await.map_err(|error| error.to_string())?;
    world.oracle().told_of_deletion(name);
    Ok(())
}

/// What is said where no replay is under way.
const NOTHING_TO_STEER: &str = "no replay of its dead letters is under way";

/// The replay of a subscription's dead letters that has not ended.
async fn replay_of(front: &Front, name: &str) -> Result<Option<ReplayInfo>, CommandError> {
    let list = |answer| Command::Replay(ReplayCommand::List { answer });
    let all = front.handle.ask(list).await?;
    let is_it = |info: &ReplayInfo| info.subscription_name == name && !info.replay.state.is_end();
    Ok(all.into_iter().find(is_it))
}

/// Begins a replay, if none is under way.
async fn begin_replay(
    world: &Arc<World>,
    front: &Front,
    whose: usize,
    plan: ReplayPlan,
) -> Result<(), String> {
    let subscription = &world.plan.subscriptions[whose];
    let open = replay_of(front, &subscription.name).await;
    if open.map_err(|error| error.to_string())?.is_some() {
        return Ok(());
    }
    let newest = world.newest_blob(&subscription.name);
    let blob = newest.filter(|_| plan.only_newest);
    let from = plan.within.map(|within| {
        let ago = world.now().since(hedgerow_core::time::Timestamp::ZERO);
        hedgerow_core::time::Timestamp::ZERO.plus(ago.saturating_sub(within))
    });
    let spec = json!({
        "blob": blob,
        "from": from.map(|from| from.to_string()),
        "target": if plan.to_topic { "Topic" } else { "EventSubscription" },
        "dryRun": plan.is_dry_run,
        "eventsPerSecond": plan.per_second,
    });
    let spec = ReplaySpec::check(&spec).map_err(|error| error.to_string())?;
    let create = |answer| {
        Command::Replay(ReplayCommand::Create {
            topic: world.plan.source(subscription),
            subscription: subscription.name.clone(),
            spec: Box::new(spec),
            answer,
        })
    };
    let created = front.handle.ask(create).await;
    created.map_err(|error| error.to_string())?;
    if plan.is_stopped {
        stop_between_steps(world, front, whose).await;
    }
    Ok(())
}

/// How often and for how long it is looked whether a replay has taken its first step.
const LOOKS: usize = 30;
const LOOK: Duration = Duration::from_millis(100);

/// Stops a replay that has taken a step and waits for its next one.
async fn stop_between_steps(world: &Arc<World>, front: &Front, whose: usize) {
    let name = &world.plan.subscriptions[whose].name;
    for _ in 0..LOOKS {
        let Ok(Some(open)) = replay_of(front, name).await else {
            return;
        };
        if open.replay.counts.replayed > 0 {
            // Who gets no answer knows nothing.
            let outcome = steer_replay(world, front, whose, ReplaySteer::Stop).await;
            world.note(format_args!("stopped between two steps: {outcome:?}"));
            // The next step would come within a second.
            return tokio::time::sleep(Duration::from_secs(2)).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Steers the replay that is under way.
async fn steer_replay(
    world: &Arc<World>,
    front: &Front,
    whose: usize,
    steer: ReplaySteer,
) -> Result<(), String> {
    let name = &world.plan.subscriptions[whose].name;
    let open = replay_of(front, name).await;
    let Some(open) = open.map_err(|error| error.to_string())? else {
        return Err(NOTHING_TO_STEER.to_owned());
    };
    let id = open.replay.id;
    if steer == ReplaySteer::Resume {
        world.oracle().told_of_replay(id, true);
    }
    let set = |answer| Command::Replay(ReplayCommand::Set { id, steer, answer });
    let set = front
        .handle
        .ask(set)
        .await
        .map_err(|error| error.to_string())?;
    let goes_on = set.replay.state == ReplayState::Running;
    world.oracle().told_of_replay(id, goes_on);
    Ok(())
}

impl World {
    /// The UUID of the newest dead letter of a subscription.
    fn newest_blob(&self, subscription: &str) -> Option<String> {
        let kept = self.shelf();
        let mut newest = kept.iter().rev();
        let found = newest.find(|blob| blob.subscription == subscription)?;
        BlobName::parse(&found.name).map(|name| name.uuid.to_owned())
    }
}
