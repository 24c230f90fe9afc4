//! Groups in JSON, as the API and the start file have them. The five names of the vendor's documents are other spellings, in
//! any letter case; a setting that is given twice with different values is refused (HP-116). The profile
//! `slow_start_container` changes the defaults of what is not given (HP-114).

use serde_json::{Map, Value};

use super::fields::{Fields, joined};
use super::problem::{Code, Refusal};
use super::{FailOpen, Group, GroupSettings, Method, OriginSettings, Protocol, Strategy};

/// The members of a group.
const GROUP: [&str; 16] = [
    "profile",
    "probe",
    "load_balancing",
    "unhealthy_threshold",
    "session_affinity",
    "fail_open",
    "strategy",
    "idle_after_s",
    "idle_max_level",
    "idle_cap_s",
    "ramp_s",
    "passive_signals",
    "passive_ejection",
    "flap_damping",
    "drain_header",
    "origins",
];
const PROBE: [&str; 10] = [
    "enabled",
    "protocol",
    "path",
    "method",
    "interval_s",
    "timeout_s",
    "header_bytes_max",
    "headers",
    "expected_statuses",
    "port",
];
const LOAD_BALANCING: [&str; 3] = [
    "sample_size",
    "successful_samples_required",
    "additional_latency_ms",
];
const ORIGIN: [&str; 10] = [
    "name",
    "host",
    "http_port",
    "https_port",
    "host_header",
    "priority",
    "weight",
    "verify_certificate_name",
    "enabled",
    "startup_grace_s",
];

/// Settings that have a second name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twofold {
    Timeout,
    Interval,
    UnhealthyThreshold,
    SampleSize,
    Required,
}

impl Twofold {
    const ALL: [Self; 5] = [
        Self::Timeout,
        Self::Interval,
        Self::UnhealthyThreshold,
        Self::SampleSize,
        Self::Required,
    ];

    const fn of_vendor(self) -> &'static str {
        match self {
            Self::Timeout => "ProbeTimeout",
            Self::Interval => "Interval",
            Self::UnhealthyThreshold => "UnhealthyThreshold",
            Self::SampleSize => "SampleSize",
            Self::Required => "SuccessfulSamplesRequired",
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::Timeout => Code::TimeoutOutOfRange,
            Self::Interval => Code::IntervalOutOfRange,
            Self::SampleSize => Code::SampleSizeOutOfRange,
            Self::UnhealthyThreshold | Self::Required => Code::SuccessfulSamplesOutOfRange,
        }
    }
}

/// The vendor's names of settings (HP-116), each with the section and the name of its own; no section is the group itself.
pub const VENDOR_NAMES: [(&str, &str, &str); 5] = [
    (Twofold::Timeout.of_vendor(), "probe", "timeout_s"),
    (Twofold::Interval.of_vendor(), "probe", "interval_s"),
    (
        Twofold::UnhealthyThreshold.of_vendor(),
        "",
        "unhealthy_threshold",
    ),
    (
        Twofold::SampleSize.of_vendor(),
        "load_balancing",
        "sample_size",
    ),
    (
        Twofold::Required.of_vendor(),
        "load_balancing",
        "successful_samples_required",
    ),
];

pub(super) fn read(declared: &Value) -> Result<Group, Refusal> {
    let mut reader = Reader::default();
    let settings = reader.group(declared);
    let mut problems = reader.fields.problems;
    let accepted = match Group::new(settings) {
        Ok(group) => Some(group),
        Err(refusal) => {
            problems.extend(refusal);
            None
        }
    };
    problems.into_result()?;
    // With no problem there is a group.
    accepted.ok_or_else(Refusal::default)
}

/// Reads members, and collects what is wrong with them.
#[derive(Default)]
struct Reader {
    fields: Fields,
    /// What was given under either name: the setting, the field, and its value.
    given: Vec<(Twofold, String, u32)>,
}

impl Reader {
    fn group(&mut self, declared: &Value) -> GroupSettings {
        let mut settings = GroupSettings::default();
        let Some(members) = self.fields.object(declared, "the group") else {
            return settings;
        };
        self.know(members, "", &GROUP, &Twofold::ALL);
        self.profile(members, &mut settings);
        if let Some(probe) = self.fields.member(members, "probe") {
            self.probe(probe, &mut settings);
        }
        if let Some(load_balancing) = self.fields.member(members, "load_balancing") {
            self.load_balancing(load_balancing, &mut settings);
        }
        self.twofold(
            members,
            "",
            "unhealthy_threshold",
            Twofold::UnhealthyThreshold,
        );
        self.settle(&mut settings);
        for (name, flag) in [
            ("session_affinity", &mut settings.session_affinity),
            ("passive_signals", &mut settings.passive_signals),
            ("passive_ejection", &mut settings.passive_ejection),
            ("flap_damping", &mut settings.flap_damping),
            ("drain_header", &mut settings.drain_header),
        ] {
            self.fields.flag(members, "", name, flag);
        }
        for (name, number) in [
            ("idle_after_s", &mut settings.idle.after_s),
            ("idle_max_level", &mut settings.idle.max_level),
            ("idle_cap_s", &mut settings.idle.cap_s),
            ("ramp_s", &mut settings.ramp_s),
        ] {
            self.fields
                .number(members, "", name, Code::ValueOutOfRange, number);
        }
        let fail_open = [
            ("all", FailOpen::All),
            ("top_priority", FailOpen::TopPriority),
            ("none", FailOpen::None),
        ];
        self.fields.one_of(
            members,
            "",
            "fail_open",
            Code::ValueOutOfRange,
            &fail_open,
            &mut settings.fail_open,
        );
        let strategies = [
            ("weighted", Strategy::Weighted),
            ("p2c_ewma", Strategy::P2cEwma),
        ];
        self.fields.one_of(
            members,
            "",
            "strategy",
            Code::ValueOutOfRange,
            &strategies,
            &mut settings.strategy,
        );
        self.origins(members, &mut settings);
        settings
    }

    /// HP-114: other defaults, in one word.
    fn profile(&mut self, members: &Map<String, Value>, settings: &mut GroupSettings) {
        #[derive(Clone, Copy)]
        enum Profile {
            SlowStartContainer,
        }
        let mut profile = None;
        let known = [("slow_start_container", Some(Profile::SlowStartContainer))];
        self.fields.one_of(
            members,
            "",
            "profile",
            Code::ValueOutOfRange,
            &known,
            &mut profile,
        );
        if let Some(Profile::SlowStartContainer) = profile {
            settings.probe.interval_s = 60;
            settings.probe.timeout_s = 30;
            settings.load_balancing.sample_size = 5;
            settings.unhealthy_threshold = Some(4);
        }
    }

    fn probe(&mut self, probe: &Value, settings: &mut GroupSettings) {
        let Some(members) = self.fields.object(probe, "probe") else {
            return;
        };
        let twofold = [
            Twofold::Timeout,
            Twofold::Interval,
            Twofold::UnhealthyThreshold,
        ];
        self.know(members, "probe", &PROBE, &twofold);
        let probe = &mut settings.probe;
        self.fields
            .flag(members, "probe", "enabled", &mut probe.enabled);
        let protocols = [("http", Protocol::Http), ("https", Protocol::Https)];
        self.fields.one_of(
            members,
            "probe",
            "protocol",
            Code::ProtocolNotAllowed,
            &protocols,
            &mut probe.protocol,
        );
        let methods = [("HEAD", Method::Head), ("GET", Method::Get)];
        self.fields.one_of(
            members,
            "probe",
            "method",
            Code::MethodNotAllowed,
            &methods,
            &mut probe.method,
        );
        self.fields.text(members, "probe", "path", &mut probe.path);
        self.fields.number(
            members,
            "probe",
            "header_bytes_max",
            Code::ValueOutOfRange,
            &mut probe.header_bytes_max,
        );
        if let Some(headers) = self.fields.member(members, "headers")
            && let Some(headers) = self.fields.object(headers, "probe.headers")
        {
            for name in headers.keys() {
                let mut value = String::new();
                self.fields.text(headers, "probe.headers", name, &mut value);
                probe.headers.insert(name.clone(), value);
            }
        }
        if let Some(statuses) = self.fields.member(members, "expected_statuses") {
            let field = "probe.expected_statuses";
            if let Some(statuses) =
                self.fields
                    .numbers(statuses, field, Code::ExpectedStatusNotAllowed)
            {
                probe.expected_statuses = statuses;
            }
        }
        if self.fields.member(members, "port").is_some() {
            self.fields.problems.add(
                Code::ProbePortNotConfigurable,
                "probe.port",
                "is no setting: probes go to the origin's http_port or https_port, as requests do",
            );
        }
        self.twofold(members, "probe", "interval_s", Twofold::Interval);
        self.twofold(members, "probe", "timeout_s", Twofold::Timeout);
    }

    fn load_balancing(&mut self, load_balancing: &Value, settings: &mut GroupSettings) {
        let path = "load_balancing";
        let Some(members) = self.fields.object(load_balancing, path) else {
            return;
        };
        let twofold = [
            Twofold::SampleSize,
            Twofold::Required,
            Twofold::UnhealthyThreshold,
        ];
        self.know(members, path, &LOAD_BALANCING, &twofold);
        self.twofold(members, path, "sample_size", Twofold::SampleSize);
        self.twofold(
            members,
            path,
            "successful_samples_required",
            Twofold::Required,
        );
        self.fields.number(
            members,
            path,
            "additional_latency_ms",
            Code::LatencySensitivityOutOfRange,
            &mut settings.load_balancing.additional_latency_ms,
        );
    }

    fn origins(&mut self, members: &Map<String, Value>, settings: &mut GroupSettings) {
        let Some(origins) = self.fields.member(members, "origins") else {
            return;
        };
        let Value::Array(origins) = origins else {
            self.fields.wrong_type("origins", "a list");
            return;
        };
        for (index, origin) in origins.iter().enumerate() {
            let path = format!("origins[{index}]");
            let mut read = OriginSettings::new("", "");
            if let Some(members) = self.fields.object(origin, &path) {
                self.origin(members, &path, &mut read);
            }
            settings.origins.push(read);
        }
    }

    fn origin(&mut self, members: &Map<String, Value>, path: &str, origin: &mut OriginSettings) {
        self.know(members, path, &ORIGIN, &[]);
        self.fields.text(members, path, "name", &mut origin.name);
        self.fields.text(members, path, "host", &mut origin.host);
        self.fields
            .text(members, path, "host_header", &mut origin.host_header);
        self.fields
            .flag(members, path, "enabled", &mut origin.enabled);
        self.fields.flag(
            members,
            path,
            "verify_certificate_name",
            &mut origin.verify_certificate_name,
        );
        for (name, code, number) in [
            ("priority", Code::PriorityOutOfRange, &mut origin.priority),
            ("weight", Code::WeightOutOfRange, &mut origin.weight),
            ("http_port", Code::ValueOutOfRange, &mut origin.http_port),
            ("https_port", Code::ValueOutOfRange, &mut origin.https_port),
            (
                "startup_grace_s",
                Code::ValueOutOfRange,
                &mut origin.startup_grace_s,
            ),
        ] {
            self.fields.number(members, path, name, code, number);
        }
    }

    /// Finds members that no setting has, and takes those that have the vendor's names.
    fn know(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        known: &[&str],
        twofold: &[Twofold],
    ) {
        for name in members.keys() {
            if known.contains(&name.as_str()) {
                continue;
            }
            let mut of_vendor = twofold.iter();
            if let Some(setting) =
                of_vendor.find(|setting| name.eq_ignore_ascii_case(setting.of_vendor()))
            {
                self.twofold(members, path, name, *setting);
            } else {
                let message = "is no setting of an origin group";
                let field = joined(path, name);
                self.fields
                    .problems
                    .add(Code::UnknownSetting, field, message);
            }
        }
    }

    fn twofold(&mut self, members: &Map<String, Value>, path: &str, name: &str, setting: Twofold) {
        let mut value = None;
        self.fields
            .whole(members, path, name, setting.code(), &mut value);
        let Some(value) = value else { return };
        self.given.push((setting, joined(path, name), value));
    }

    /// HP-116: what was given under several names must be the same.
    fn settle(&mut self, settings: &mut GroupSettings) {
        for (index, (setting, field, value)) in self.given.iter().enumerate() {
            let earlier = self.given.get(..index).unwrap_or_default();
            let other = earlier.iter().find(|(of, ..)| of == setting);
            if let Some((_, other, earlier)) = other.filter(|(.., earlier)| earlier != value) {
                let message = format!("is {value}, and {other} is {earlier}: give one of both");
                let code = Code::SettingGivenTwice;
                self.fields.problems.add(code, field.clone(), message);
                continue;
            }
            let load_balancing = &mut settings.load_balancing;
            match setting {
                Twofold::Timeout => settings.probe.timeout_s = *value,
                Twofold::Interval => settings.probe.interval_s = *value,
                Twofold::UnhealthyThreshold => settings.unhealthy_threshold = Some(*value),
                Twofold::SampleSize => load_balancing.sample_size = *value,
                Twofold::Required => load_balancing.successful_samples_required = Some(*value),
            }
        }
    }
}
