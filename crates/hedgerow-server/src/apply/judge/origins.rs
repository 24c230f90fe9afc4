//! Judges origin groups and routes: each by itself, then whether routes name groups that there will be, and whether each
//! combination is of one route only (HP-150).

use std::collections::BTreeSet;

use hedgerow_core::name::{OriginGroupName, RouteName};
use hedgerow_delivery::command::{CommandError, EngineHandle};
use hedgerow_delivery::origin_groups::{judge_routes, unknown_group};
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::{Group, Refusal};
use serde_json::{Map, Value};

use super::super::{Plan, PlannedGroup, PlannedRoute};
use super::{Faults, items, name, parsed};
use crate::access::Grant;

pub(super) fn judge(
    engine: &EngineHandle,
    members: &Map<String, Value>,
    grant: &Grant,
    plan: &mut Plan,
    faults: &mut Faults,
) {
    let groups = items(members, "originGroups", faults);
    let routes = items(members, "routes", faults);
    if !grant.is_whole() {
        // They are no topics, which is all that the token holds for.
        for (path, _) in groups.iter().chain(&routes) {
            faults.add(path, super::beyond(grant));
        }
        return;
    }
    // One that is wrong is named by routes all the same, and told once.
    let mut declared: Vec<OriginGroupName> = Vec::new();
    for (path, members) in groups {
        let mut members = members.clone();
        let found: Option<OriginGroupName> = name(&mut members, &path, "name", faults)
            .and_then(|name| parsed(&name, &format!("{path}.name"), faults));
        declared.extend(found.clone());
        match (Group::read(&Value::Object(members)), found) {
            (Ok(group), Some(name)) => plan.groups.push(PlannedGroup {
                path,
                name,
                group: Box::new(group),
            }),
            (Ok(_), None) => {}
            (Err(refusal), _) => add(faults, &path, &refusal),
        }
    }
    let table = engine.origins();
    let anew = routes.iter();
    let anew = anew.filter_map(|(_, members)| members.get("name")?.as_str()?.parse().ok());
    let anew: BTreeSet<RouteName> = anew.collect();
    for (path, members) in routes {
        let mut members = members.clone();
        let found: Option<RouteName> = name(&mut members, &path, "name", faults)
            .and_then(|name| parsed(&name, &format!("{path}.name"), faults));
        let route = match RouteSettings::read(&Value::Object(members)) {
            Ok(route) => route,
            Err(refusal) => {
                add(faults, &path, &refusal);
                continue;
            }
        };
        let group = route.origin_group.as_str();
        let is_declared = declared
            .iter()
            .any(|declared| declared.as_str().eq_ignore_ascii_case(group));
        if !is_declared
            && table.group_named(group).is_none()
            && let CommandError::Invalid(error) = unknown_group(group)
        {
            faults.add_spec(&path, error);
            continue;
        }
        let Some(name) = found else { continue };
        // Those that are there and stay as they are, and those that stand before it here.
        let present = table.routes.iter();
        let present = present.map(|(name, declared)| (name, &declared.route));
        let stay = present.filter(|(name, _)| !anew.contains(name));
        let planned = plan.routes.iter();
        let planned = planned.map(|planned| (&planned.name, &*planned.route));
        if let Err(error) = judge_routes(stay.chain(planned), &name, &route) {
            faults.add(&path, error.to_string());
            continue;
        }
        plan.routes.push(PlannedRoute {
            path,
            name,
            route: Box::new(route),
        });
    }
}

fn add(faults: &mut Faults, path: &str, refusal: &Refusal) {
    for problem in refusal.problems() {
        let message = format!("{} [{}]", problem.message, problem.code.as_str());
        faults.add(format!("{path}.{}", problem.field), message);
    }
}
