//! Origin groups and routes as they are declared. They have names and no ids: nothing that is stored elsewhere refers to them.

use std::collections::BTreeMap;

use hedgerow_core::name::{OriginGroupName, RouteName};
use hedgerow_core::time::Timestamp;
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use serde::{Deserialize, Serialize};

use super::{Catalog, Change};

/// An origin group as declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginGroup {
    /// What the user asked for.
    pub group: Group,
    /// When it was created.
    pub created: Timestamp,
    /// When it was declared as it is.
    pub changed: Timestamp,
}

/// A route as declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclaredRoute {
    /// What the user asked for.
    pub route: RouteSettings,
    /// When it was created.
    pub created: Timestamp,
    /// When it was declared as it is.
    pub changed: Timestamp,
}

impl Catalog {
    /// All origin groups, by name.
    #[must_use]
    pub const fn origin_groups(&self) -> &BTreeMap<OriginGroupName, OriginGroup> {
        &self.origin_groups
    }

    /// All routes, by name.
    #[must_use]
    pub const fn routes(&self) -> &BTreeMap<RouteName, DeclaredRoute> {
        &self.routes
    }

    /// The origin group with this name, and its name as it was created.
    #[must_use]
    pub fn origin_group_named(&self, name: &str) -> Option<(&OriginGroupName, &OriginGroup)> {
        let name: OriginGroupName = name.parse().ok()?;
        self.origin_groups.get_key_value(&name)
    }

    /// The route with this name, and its name as it was created.
    #[must_use]
    pub fn route_named(&self, name: &str) -> Option<(&RouteName, &DeclaredRoute)> {
        let name: RouteName = name.parse().ok()?;
        self.routes.get_key_value(&name)
    }

    /// A change of origin groups or routes; what is declared again keeps its name's spelling and when it was created.
    pub(super) fn follow_origins(&mut self, change: Change) {
        match change {
            Change::OriginGroupDeclared { name, group, at } => {
                let existing = self.origin_groups.get(&name);
                let declared = OriginGroup {
                    group: *group,
                    created: existing.map_or(at, |existing| existing.created),
                    changed: at,
                };
                self.origin_groups.insert(name, declared);
            }
            Change::OriginGroupDeleted { name } => drop(self.origin_groups.remove(&name)),
            Change::RouteDeclared { name, route, at } => {
                let existing = self.routes.get(&name);
                let declared = DeclaredRoute {
                    route: *route,
                    created: existing.map_or(at, |existing| existing.created),
                    changed: at,
                };
                self.routes.insert(name, declared);
            }
            Change::RouteDeleted { name } => drop(self.routes.remove(&name)),
            _ => {}
        }
    }
}
