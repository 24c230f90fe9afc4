//! Which origins of its group a subscription may deliver to (HP-202): those that have consented, each asked once. A group's handshakes
//! are those of an endpoint, one with each enabled origin; here is which there are to be, and what follows from who has consented.
//!
//! A disabled origin is asked when it is enabled: until then nobody may be there. One whose address changes is another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow_core::name::OriginGroupName;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{Destination, OriginGroupEndpoint};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Catalog, Change, OriginValidation, Subscription, Validation};

use super::Engine;
use super::declarations::{Answered, nobody_waits};
use super::validations::{Validations, new_token};
use crate::origins::{Origin, origins_of};

/// Which origins of its group a subscription may deliver to.
pub(super) struct Consents<'e> {
    settings: &'e ValidationSettings,
    subscription: Option<&'e Subscription>,
}

impl Consents<'_> {
    /// Whether an origin has consented, or need not.
    pub(super) fn has(&self, origin: &Origin) -> bool {
        !is_needed_at(self.settings, origin)
            || self
                .subscription
                .is_some_and(|found| found.has_consent_of(&origin.address))
    }
}

fn is_needed_at(settings: &ValidationSettings, origin: &Origin) -> bool {
    settings.is_needed_at(&origin.target.host().to_string())
}

impl Validations {
    /// Whether an origin of a group has to consent before it gets anything.
    pub(super) fn is_needed_at(&self, origin: &Origin) -> bool {
        is_needed_at(&self.settings, origin)
    }

    /// Which origins of its group a subscription may deliver to.
    pub(super) fn consents<'e>(&'e self, catalog: &'e Catalog, id: SubscriptionId) -> Consents<'e> {
        Consents {
            settings: &self.settings,
            subscription: catalog.subscription(id),
        }
    }
}

impl Engine {
    /// The handshakes that have to come before a declaration with this group holds. Where some need not consent, it holds at once.
    pub(super) fn handshakes_for_group(
        &self,
        id: SubscriptionId,
        to: &OriginGroupEndpoint,
    ) -> Validation {
        let origins = self.origins_to_ask(to);
        let all = self.enabled_origins(to).len();
        // Where there is nobody to ask, there is nobody to wait for.
        let is_in_force = origins.is_empty() || origins.len() < all;
        let origins = origins.into_iter().map(|address| {
            let asked = OriginValidation::new(new_token(id));
            (address, asked)
        });
        // Also without any to ask: those who consented to what was declared before did not to this.
        Validation::of_group(origins.collect(), is_in_force)
    }

    /// The enabled origins of a group, as the catalog has it.
    pub(super) fn enabled_origins(&self, to: &OriginGroupEndpoint) -> Vec<Arc<Origin>> {
        let found = self.view.catalog().origin_group_named(to.group().as_str());
        let Some((_, declared)) = found else {
            return Vec::new();
        };
        let settings = &declared.group.settings().origins;
        let origins = origins_of(&declared.group, to.protocol()).into_iter();
        let enabled = origins.zip(settings).filter(|(_, origin)| origin.enabled);
        enabled.filter_map(|(origin, _)| origin).collect()
    }

    /// The addresses of those that have to consent.
    fn origins_to_ask(&self, to: &OriginGroupEndpoint) -> BTreeSet<String> {
        let settings = &self.validations.settings;
        let origins = self.enabled_origins(to).into_iter();
        let asked = origins.filter(|origin| is_needed_at(settings, origin));
        asked.map(|origin| origin.address.to_string()).collect()
    }

    /// Asks the origins of a group for all that deliver to it.
    pub(super) fn follow_origins_of(&mut self, group: &OriginGroupName) -> Result<(), StoreError> {
        let to_group = self.view.catalog().subscriptions_to_group(group);
        let ids: Vec<_> = to_group.map(|found| found.id).collect();
        for id in ids {
            self.follow_origins(id)?;
        }
        Ok(())
    }

    /// Asks the origins of a subscription's group that were not asked, and forgets those that are no part of it.
    pub(super) fn follow_origins(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        match self.change_for_new_origins(id) {
            Some(_) => self.note_new_origins(id),
            None => Ok(()),
        }
    }

    /// The change that this takes; `None` if it takes none.
    pub(super) fn change_for_new_origins(&self, id: SubscriptionId) -> Option<(Change, Answered)> {
        let found = self.view.catalog().subscription(id)?;
        let Destination::OriginGroup(to) = &found.newest().destination else {
            return None;
        };
        let wanted = self.origins_to_ask(to);
        let asked = found.validation.as_ref().map(|asked| &asked.origins);
        let is_asked = |address: &String| asked.is_some_and(|asked| asked.contains_key(address));
        // What waits for consent is not what was consented to.
        let is_consented = |address: &str| found.update.is_none() && found.has_consent_of(address);
        let added = wanted
            .iter()
            .filter(|address| !is_asked(address) && !is_consented(address));
        let added: BTreeMap<_, _> = added
            .map(|address| (address.clone(), OriginValidation::new(new_token(id))))
            .collect();
        let known = asked.into_iter().flat_map(|asked| asked.keys());
        let known = known.chain(found.consented.iter().filter(|_| found.update.is_none()));
        let removed = known.filter(|address| !wanted.contains(*address));
        let removed: BTreeSet<_> = removed.cloned().collect();
        let is_nothing = added.is_empty() && removed.is_empty();
        let change = Change::OriginsFollowed { id, added, removed };
        (!is_nothing).then(|| (change, nobody_waits()))
    }
}
