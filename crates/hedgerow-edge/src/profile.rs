//! Under which names the edge says things (HP-161), and who is let near which of them.

/// How the edge names what it adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeaderProfile {
    /// Names of its own.
    #[default]
    Hedgerow,
    /// The names of the model service, so that origins built for it work unchanged.
    FrontDoor,
}

/// The names of a profile, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Names {
    pub client_ip: &'static str,
    pub socket_ip: &'static str,
    pub reference: &'static str,
    pub edge_id: &'static str,
    /// With what stands in front of the number.
    pub hops: (&'static str, &'static str),
    /// The origin's status, and the reason of an answer, for those who may see them (HP-167).
    pub origin_status: &'static str,
    pub error: &'static str,
}

impl HeaderProfile {
    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "hedgerow" => Some(Self::Hedgerow),
            "front-door" => Some(Self::FrontDoor),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hedgerow => "hedgerow",
            Self::FrontDoor => "front-door",
        }
    }

    pub(crate) const fn names(self) -> &'static Names {
        match self {
            Self::Hedgerow => &HEDGEROW,
            Self::FrontDoor => &FRONT_DOOR,
        }
    }
}

static HEDGEROW: Names = Names {
    client_ip: "X-Hedgerow-Client-IP",
    socket_ip: "X-Hedgerow-Socket-IP",
    reference: "X-Hedgerow-Ref",
    edge_id: "X-Hedgerow-Edge-Id",
    hops: ("X-Hedgerow-Hops", ""),
    origin_status: "X-Hedgerow-Origin-Status",
    error: "X-Hedgerow-Error",
};

static FRONT_DOOR: Names = Names {
    client_ip: "X-Azure-ClientIP",
    socket_ip: "X-Azure-SocketIP",
    reference: "X-Azure-Ref",
    edge_id: "X-Azure-FDID",
    hops: ("X-Azure-RequestChain", "hops="),
    origin_status: "X-Azure-OriginStatusCode",
    error: "X-Azure-ExternalError",
};
