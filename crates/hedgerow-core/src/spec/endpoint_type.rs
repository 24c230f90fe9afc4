//! The kinds of destinations by their names in declarations (ED-266), as far as rules for declarations tell them apart.

/// `destination.endpointType`. Which of them can be delivered to is not said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointType {
    /// An HTTP endpoint of a customer.
    WebHook,
    /// A function.
    AzureFunction,
    /// An event hub.
    EventHub,
    /// A queue of a service bus.
    ServiceBusQueue,
    /// A topic of a service bus.
    ServiceBusTopic,
    /// A queue of a storage account.
    StorageQueue,
    /// A listener behind a relay.
    HybridConnection,
    /// A group of origins of a customer: an extension (ED-316).
    OriginGroup,
}

impl EndpointType {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WebHook,
        Self::AzureFunction,
        Self::EventHub,
        Self::ServiceBusQueue,
        Self::ServiceBusTopic,
        Self::StorageQueue,
        Self::HybridConnection,
        Self::OriginGroup,
    ];

    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebHook => "WebHook",
            Self::AzureFunction => "AzureFunction",
            Self::EventHub => "EventHub",
            Self::ServiceBusQueue => "ServiceBusQueue",
            Self::ServiceBusTopic => "ServiceBusTopic",
            Self::StorageQueue => "StorageQueue",
            Self::HybridConnection => "HybridConnection",
            Self::OriginGroup => "OriginGroup",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it is an endpoint of a customer that HTTP is spoken to: kind W, whichever origin it is (ED-316).
    #[must_use]
    pub const fn is_webhook(self) -> bool {
        matches!(self, Self::WebHook | Self::OriginGroup)
    }

    /// Whether it is a queue or a topic of a service bus.
    #[must_use]
    pub const fn is_service_bus(self) -> bool {
        matches!(self, Self::ServiceBusQueue | Self::ServiceBusTopic)
    }
}
