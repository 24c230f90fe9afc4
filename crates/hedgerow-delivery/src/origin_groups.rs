//! Declaring origin groups and routes: what is asked of the engine, and what everybody else reads of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::name::{OriginGroupName, RouteName};
use hedgerow_core::spec::SpecError;
use hedgerow_origin::route::{RouteError, RouteSettings, RouteTable};
use hedgerow_origin::settings::Group;
use hedgerow_store::catalog::{DeclaredRoute, OriginGroup};

use crate::command::{Answer, Command, CommandError, EngineHandle};

/// The origin groups and routes that are declared. One that did not change is the same `Arc` from table to table.
#[derive(Debug, Clone, Default)]
pub struct OriginTable {
    /// Groups by name, which compares without regard to ASCII case.
    pub groups: BTreeMap<OriginGroupName, Arc<OriginGroup>>,
    /// Routes by name.
    pub routes: BTreeMap<RouteName, Arc<DeclaredRoute>>,
}

impl OriginTable {
    /// The group with this name, and its name as it was created.
    #[must_use]
    pub fn group_named(&self, name: &str) -> Option<(&OriginGroupName, &Arc<OriginGroup>)> {
        self.groups.get_key_value(&name.parse().ok()?)
    }

    /// The route with this name, and its name as it was created.
    #[must_use]
    pub fn route_named(&self, name: &str) -> Option<(&RouteName, &Arc<DeclaredRoute>)> {
        self.routes.get_key_value(&name.parse().ok()?)
    }
}

/// A thing as somebody wants it.
#[derive(Debug, Clone)]
pub struct Wish<N, T> {
    /// Its name.
    pub name: N,
    /// What the user asks for.
    pub wanted: Box<T>,
    /// What `wanted` was made of, if it is a change of that: then it is refused as [`CommandError::Changed`] where somebody
    /// declared it otherwise meanwhile.
    pub expected: Option<Box<T>>,
    /// Whether it is only judged.
    pub is_dry_run: bool,
}

/// What a declaration did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    Created,
    /// It is declared otherwise now.
    Changed,
    /// It was declared so already.
    Unchanged,
}

/// A thing as it is declared now, or would be: its name as it was created, its settings, and what was done.
#[derive(Debug, Clone)]
pub struct PutDone<N, T> {
    /// Its name.
    pub name: N,
    /// What is declared.
    pub declared: T,
    /// What was done.
    pub put: Put,
}

/// An origin group that was declared.
pub type GroupDone = PutDone<OriginGroupName, OriginGroup>;
/// A route that was declared.
pub type RouteDone = PutDone<RouteName, DeclaredRoute>;

/// What can be asked about origin groups and routes. What is declared is read in [`EngineHandle::origins`].
pub enum OriginCommand {
    /// Declares a group, or declares it anew.
    PutGroup {
        /// What is wanted.
        wish: Wish<OriginGroupName, Group>,
        /// What is declared then.
        answer: Answer<GroupDone>,
    },
    /// Deletes a group that nothing names.
    DeleteGroup {
        /// Its name.
        name: String,
        /// When it is done.
        answer: Answer<()>,
    },
    /// Says who names a group.
    UsersOfGroup {
        /// Its name.
        name: String,
        /// Such as `route shop` and `event subscription orders/billing`.
        answer: Answer<Vec<String>>,
    },
    /// Declares a route, or declares it anew.
    PutRoute {
        /// What is wanted.
        wish: Wish<RouteName, RouteSettings>,
        /// What is declared then.
        answer: Answer<RouteDone>,
    },
    /// Deletes a route.
    DeleteRoute {
        /// Its name.
        name: String,
        /// When it is done.
        answer: Answer<()>,
    },
}

impl EngineHandle {
    /// The origin groups and routes that are declared now.
    #[must_use]
    pub fn origins(&self) -> Arc<OriginTable> {
        Arc::clone(&self.origins.borrow())
    }

    /// The same, for who waits for changes. It ends with the engine.
    #[must_use]
    pub fn watch_origins(&self) -> tokio::sync::watch::Receiver<Arc<OriginTable>> {
        self.origins.clone()
    }

    /// Declares an origin group. It is durable then, and [`EngineHandle::origins`] has it.
    ///
    /// # Errors
    /// If it cannot be declared.
    pub async fn put_origin_group(
        &self,
        wish: Wish<OriginGroupName, Group>,
    ) -> Result<GroupDone, CommandError> {
        self.ask(|answer| Command::Origins(OriginCommand::PutGroup { wish, answer }))
            .await
    }

    /// Deletes an origin group.
    ///
    /// # Errors
    /// [`CommandError::Conflict`] if something names it.
    pub async fn delete_origin_group(&self, name: String) -> Result<(), CommandError> {
        self.ask(|answer| Command::Origins(OriginCommand::DeleteGroup { name, answer }))
            .await
    }

    /// Says who names an origin group, such as `route shop`.
    ///
    /// # Errors
    /// If there is none.
    pub async fn users_of_origin_group(&self, name: String) -> Result<Vec<String>, CommandError> {
        self.ask(|answer| Command::Origins(OriginCommand::UsersOfGroup { name, answer }))
            .await
    }

    /// Declares a route. It is durable then, and [`EngineHandle::origins`] has it.
    ///
    /// # Errors
    /// If it cannot be declared.
    pub async fn put_route(
        &self,
        wish: Wish<RouteName, RouteSettings>,
    ) -> Result<RouteDone, CommandError> {
        self.ask(|answer| Command::Origins(OriginCommand::PutRoute { wish, answer }))
            .await
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// If there is none.
    pub async fn delete_route(&self, name: String) -> Result<(), CommandError> {
        self.ask(|answer| Command::Origins(OriginCommand::DeleteRoute { name, answer }))
            .await
    }
}

/// A route that names no group that is there.
#[must_use]
pub fn unknown_group(name: &str) -> CommandError {
    CommandError::Invalid(SpecError {
        field: "origin_group".to_owned(),
        message: format!("names \"{name}\", and there is no such origin group"),
    })
}

/// Refuses a route that has a combination of protocol, host and path that another has already (HP-150), or that is one too
/// many.
///
/// # Errors
/// Why it is refused.
pub fn judge_routes<'r>(
    others: impl Iterator<Item = (&'r RouteName, &'r RouteSettings)>,
    name: &RouteName,
    wanted: &RouteSettings,
) -> Result<(), CommandError> {
    let others = others.filter(|(other, _)| *other != name);
    let mut routes: Vec<_> = others
        .map(|(name, settings)| settings.route(name.as_str()))
        .collect();
    routes.push(wanted.route(name.as_str()));
    match RouteTable::new(&routes) {
        Ok(_) => Ok(()),
        Err(error @ (RouteError::TooMany | RouteError::TooManyCombinations)) => {
            Err(CommandError::Limit(error.to_string()))
        }
        Err(error) => Err(CommandError::Conflict(error.to_string())),
    }
}
