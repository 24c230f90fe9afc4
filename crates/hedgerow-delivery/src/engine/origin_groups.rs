//! What is declared of origin groups and routes: which changes of them are made, and who names which group.

use std::sync::Arc;

use hedgerow_core::name::{OriginGroupName, RouteName};
use hedgerow_origin::limits;
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use hedgerow_store::catalog::{Catalog, Change, DeclaredRoute, OriginGroup, source_name};

use super::Engine;
use super::declarations::{Answered, done, found_or_answered, reply};
use super::lookups::not_found;
use crate::command::{Answer, CommandError};
use crate::origin_groups::{
    GroupDone, OriginCommand, OriginTable, Put, PutDone, RouteDone, Wish, judge_routes,
    unknown_group,
};

/// How many of those that name a group are told; the rest is counted.
const USERS_TOLD_MAX: usize = 10;

impl Engine {
    /// Whether a command changes nothing and can be answered at once.
    pub(super) const fn is_question(command: &OriginCommand) -> bool {
        match command {
            OriginCommand::UsersOfGroup { .. } => true,
            OriginCommand::PutGroup { wish, .. } => wish.is_dry_run,
            OriginCommand::PutRoute { wish, .. } => wish.is_dry_run,
            OriginCommand::DeleteGroup { .. } | OriginCommand::DeleteRoute { .. } => false,
        }
    }

    /// The change a command asks for; `None` if it was answered.
    pub(super) fn change_for_origins(&self, command: OriginCommand) -> Option<(Change, Answered)> {
        match command {
            OriginCommand::PutGroup { wish, answer } => self.put_group(wish, answer),
            OriginCommand::PutRoute { wish, answer } => self.put_route(wish, answer),
            OriginCommand::DeleteGroup { name, answer } => {
                let (name, answer) = found_or_answered(self.group_to_delete(&name), answer)?;
                Some((Change::OriginGroupDeleted { name }, done(answer)))
            }
            OriginCommand::UsersOfGroup { name, answer } => {
                let found = self.view.catalog().origin_group_named(&name);
                let found = found.ok_or_else(|| not_found("origin group", &name));
                let users = found.map(|(name, _)| users_of_group(self.view.catalog(), name));
                reply(answer, users);
                None
            }
            OriginCommand::DeleteRoute { name, answer } => {
                let found = self.view.catalog().route_named(&name);
                let found = found.map(|(name, _)| name.clone());
                let found = found.ok_or_else(|| not_found("route", &name));
                let (name, answer) = found_or_answered(found, answer)?;
                Some((Change::RouteDeleted { name }, done(answer)))
            }
        }
    }

    fn put_group(
        &self,
        wish: Wish<OriginGroupName, Group>,
        answer: Answer<GroupDone>,
    ) -> Option<(Change, Answered)> {
        let catalog = self.view.catalog();
        let existing = catalog.origin_group_named(wish.name.as_str());
        let present = existing.map(|(name, declared)| (name, &declared.group));
        let judged = judge_expected("origin group", &wish, present).and_then(|()| {
            let count = catalog.origin_groups().len();
            match existing {
                None if count >= limits::GROUPS_MAX => Err(CommandError::Limit(format!(
                    "there are {count} origin groups, no more are possible; delete one"
                ))),
                _ => Ok(()),
            }
        });
        let ((), answer) = found_or_answered(judged, answer)?;
        let name = existing.map_or(wish.name, |(name, _)| name.clone());
        let at = self.now();
        let put = put_of(present.map(|(_, group)| group), &wish.wanted);
        if put == Put::Unchanged || wish.is_dry_run {
            let present = existing.map(|(_, declared)| declared);
            let declared = OriginGroup {
                created: present.map_or(at, |present| present.created),
                changed: present
                    .filter(|_| put == Put::Unchanged)
                    .map_or(at, |present| present.changed),
                group: *wish.wanted,
            };
            let done = PutDone {
                name,
                declared,
                put,
            };
            reply(answer, Ok(done));
            return None;
        }
        let change = Change::OriginGroupDeclared {
            name: name.clone(),
            group: wish.wanted,
            at,
        };
        let answered: Answered = Box::new(move |made| {
            let found = made.and_then(|engine| {
                let found = engine.view.catalog().origin_group_named(name.as_str());
                found
                    .map(|(name, declared)| (name.clone(), declared.clone()))
                    .ok_or(CommandError::Unavailable)
            });
            reply(
                answer,
                found.map(|(name, declared)| PutDone {
                    name,
                    declared,
                    put,
                }),
            );
        });
        Some((change, answered))
    }

    fn put_route(
        &self,
        mut wish: Wish<RouteName, RouteSettings>,
        answer: Answer<RouteDone>,
    ) -> Option<(Change, Answered)> {
        let catalog = self.view.catalog();
        let existing = catalog.route_named(wish.name.as_str());
        let present = existing.map(|(name, declared)| (name, &declared.route));
        let judged = judge_expected("route", &wish, present).and_then(|()| {
            // Who reads the route finds the group under the name that it has.
            let group = catalog.origin_group_named(&wish.wanted.origin_group);
            let (group, _) = group.ok_or_else(|| unknown_group(&wish.wanted.origin_group))?;
            group.as_str().clone_into(&mut wish.wanted.origin_group);
            let others = catalog.routes().iter();
            let others = others.map(|(name, declared)| (name, &declared.route));
            judge_routes(others, &wish.name, &wish.wanted)
        });
        let ((), answer) = found_or_answered(judged, answer)?;
        let name = existing.map_or(wish.name, |(name, _)| name.clone());
        let at = self.now();
        let put = put_of(present.map(|(_, route)| route), &wish.wanted);
        if put == Put::Unchanged || wish.is_dry_run {
            let present = existing.map(|(_, declared)| declared);
            let declared = DeclaredRoute {
                created: present.map_or(at, |present| present.created),
                changed: present
                    .filter(|_| put == Put::Unchanged)
                    .map_or(at, |present| present.changed),
                route: *wish.wanted,
            };
            let done = PutDone {
                name,
                declared,
                put,
            };
            reply(answer, Ok(done));
            return None;
        }
        let change = Change::RouteDeclared {
            name: name.clone(),
            route: wish.wanted,
            at,
        };
        let answered: Answered = Box::new(move |made| {
            let found = made.and_then(|engine| {
                let found = engine.view.catalog().route_named(name.as_str());
                found
                    .map(|(name, declared)| (name.clone(), declared.clone()))
                    .ok_or(CommandError::Unavailable)
            });
            reply(
                answer,
                found.map(|(name, declared)| PutDone {
                    name,
                    declared,
                    put,
                }),
            );
        });
        Some((change, answered))
    }

    /// Refuses to delete what something names, and says who does.
    fn group_to_delete(&self, name: &str) -> Result<OriginGroupName, CommandError> {
        let catalog = self.view.catalog();
        let found = catalog.origin_group_named(name);
        let (name, _) = found.ok_or_else(|| not_found("origin group", name))?;
        let users = users_of_group(catalog, name);
        if users.is_empty() {
            return Ok(name.clone());
        }
        Err(CommandError::Conflict(format!(
            "the origin group \"{name}\" is used by {}; delete that first, or let it use another group",
            told_users(&users)
        )))
    }

    /// Shows what is declared to everybody.
    pub(super) fn publish_origins(&self) {
        let catalog = self.view.catalog();
        let before = self.handle.origins();
        let groups = catalog.origin_groups().iter().map(|(name, declared)| {
            let same = before.groups.get(name).filter(|same| ***same == *declared);
            let entry = same.map_or_else(|| Arc::new(declared.clone()), Arc::clone);
            (name.clone(), entry)
        });
        let routes = catalog.routes().iter().map(|(name, declared)| {
            let same = before.routes.get(name).filter(|same| ***same == *declared);
            let entry = same.map_or_else(|| Arc::new(declared.clone()), Arc::clone);
            (name.clone(), entry)
        });
        let table = OriginTable {
            groups: groups.collect(),
            routes: routes.collect(),
        };
        self.origins.send_replace(Arc::new(table));
    }
}

/// Refuses what was made of something else than what is declared.
fn judge_expected<N: std::fmt::Display, T: PartialEq>(
    what: &'static str,
    wish: &Wish<N, T>,
    present: Option<(&N, &T)>,
) -> Result<(), CommandError> {
    let is_expected = wish.expected.as_ref().is_none_or(|expected| {
        let present = present.map(|(_, present)| present);
        present == Some(&**expected)
    });
    if is_expected {
        return Ok(());
    }
    Err(CommandError::Changed {
        what,
        name: wish.name.to_string(),
    })
}

fn put_of<T: PartialEq>(present: Option<&T>, wanted: &T) -> Put {
    match present {
        None => Put::Created,
        Some(present) if present == wanted => Put::Unchanged,
        Some(_) => Put::Changed,
    }
}

/// Who names a group: routes, then subscriptions.
fn users_of_group(catalog: &Catalog, group: &OriginGroupName) -> Vec<String> {
    let is_it = |declared: &DeclaredRoute| {
        let named = &declared.route.origin_group;
        named.eq_ignore_ascii_case(group.as_str())
    };
    let routes = catalog.routes().iter();
    let routes = routes.filter(|(_, declared)| is_it(declared));
    let routes = routes.map(|(name, _)| format!("route {name}"));
    let subscriptions = catalog.subscriptions_to_group(group).map(|subscription| {
        let topic = catalog.topic(subscription.topic);
        let topic = topic.map_or("", |topic| topic.name.as_str());
        let source = source_name(topic, subscription.domain_topic.as_ref());
        format!("event subscription {source}/{}", subscription.name)
    });
    routes.chain(subscriptions).collect()
}

fn told_users(users: &[String]) -> String {
    let told = users.get(..USERS_TOLD_MAX).unwrap_or(users).join(", ");
    match users.len().saturating_sub(USERS_TOLD_MAX) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}
