use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// One engine instance in one process. Chosen at random by the node, kept over its incarnations.
    NodeId, u64
);
id!(
    /// One life of a node: given by the membership service at each admission, growing (R046).
    Incarnation, u32
);
id!(
    /// A group, numbered densely by the membership service so that tables can be indexed by it.
    GroupId, u32
);
id!(
    /// A dissemination path: one multicast address, over one region for now.
    ChannelId, u32
);
id!(
    /// Nodes with the same group membership (R015).
    RegionId, u32
);
id!(
    /// Number of a region view, growing by one with each change. Zero means "none".
    ViewNumber, u32
);
id!(
    /// A node's place in the member list of one region view.
    MemberIndex, u16
);

/// A sender: a node in one of its lives. Text and lists have it as `34a45c19b27e9e00.7`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Origin {
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.node.0, self.incarnation)
    }
}

/// As in lists, so that one can be searched for in the other.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// One sender's packets on one channel, numbered continuously from 1 (glossary: stream).
/// Rule R-DATA-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId {
    /// The sender.
    pub origin: Origin,
    /// The channel.
    pub channel: ChannelId,
}
