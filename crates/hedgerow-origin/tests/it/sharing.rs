//! Properties of sharing.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_origin::settings::{Group, GroupSettings, Method, OriginSettings, Protocol};
use hedgerow_origin::streams::{Member, streams};
use hedgerow_origin::target::ProbeTarget;
use proptest::prelude::*;

fn group() -> impl Strategy<Value = Group> {
    let origin = (0_u8..3, any::<bool>(), any::<bool>());
    let origins = prop::collection::vec(origin, 1..4);
    let probe = (5_u32..60, 1_u32..5, any::<bool>(), any::<bool>());
    (probe, origins).prop_map(|((interval_s, timeout_s, is_https, is_get), origins)| {
        let mut settings = GroupSettings::default();
        settings.probe.interval_s = interval_s;
        settings.probe.timeout_s = timeout_s;
        if is_https {
            settings.probe.protocol = Protocol::Https;
        }
        if is_get {
            settings.probe.method = Method::Get;
        }
        for (number, (host, is_enabled, is_verified)) in origins.into_iter().enumerate() {
            let mut origin = OriginSettings::new(format!("o{number}"), format!("h{host}.example"));
            origin.enabled = is_enabled;
            origin.verify_certificate_name = is_verified;
            settings.origins.push(origin);
        }
        Group::new(settings).unwrap()
    })
}

/// By target: the interval, the timeout, and who feeds from it.
type Shared = BTreeMap<ProbeTarget, (Duration, Duration, Vec<(usize, usize)>)>;

/// The streams of groups that have these numbers.
fn shared(groups: &[(usize, Group, u64)]) -> Shared {
    let members: Vec<Member<'_>> = groups
        .iter()
        .map(|(_, group, idle)| Member {
            group,
            unused_for: Duration::from_secs(*idle),
        })
        .collect();
    let streams = streams(&members).into_iter().map(|stream| {
        let named = stream.members.iter();
        let mut members: Vec<_> = named
            .map(|(group, origin)| (groups[*group].0, *origin))
            .collect();
        members.sort_unstable();
        let shared = stream.shared;
        (
            stream.target,
            (shared.interval, shared.demands.timeout, members),
        )
    });
    let streams: Vec<_> = streams.collect();
    let count = streams.len();
    let shared: Shared = streams.into_iter().collect();
    assert_eq!(shared.len(), count, "no target has two streams");
    shared
}

proptest! {
    /// HP-070 to HP-073: whoever comes first, the same targets are probed at the same interval for the same groups; each
    /// enabled origin has one stream; and nobody is probed less often than its group says.
    #[test]
    fn sharing_is_independent_of_order(
        groups in prop::collection::vec((group(), 0_u64..2_000), 1..6),
        turn in any::<prop::sample::Index>(),
    ) {
        let mut groups: Vec<(usize, Group, u64)> = groups
            .into_iter()
            .enumerate()
            .map(|(number, (group, idle))| (number, group, idle))
            .collect();
        let first = shared(&groups);
        for (number, group, idle) in &groups {
            for (place, origin) in group.settings().origins.iter().enumerate() {
                let fed = first.iter().filter(|(_, (.., members))| members.contains(&(*number, place)));
                let fed: Vec<_> = fed.collect();
                prop_assert_eq!(fed.len(), usize::from(origin.enabled));
                for (target, (interval, timeout, _)) in fed {
                    prop_assert_eq!(target, &ProbeTarget::of(group, origin));
                    prop_assert!(*interval <= group.effective_interval(Duration::from_secs(*idle)));
                    prop_assert!(*timeout >= group.timeout());
                }
            }
        }
        let middle = turn.index(groups.len());
        groups.rotate_left(middle);
        groups.reverse();
        prop_assert_eq!(shared(&groups), first);
    }
}
