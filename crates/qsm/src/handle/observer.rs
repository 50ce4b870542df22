use core::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_net::Interface;
use qsm_proto::enquiry::{EnquiryAnswer, EnquiryQuestion};
use qsm_wire::membership::{
    AnswerRows, GROUP_NAME_BYTES_MAX, GroupDecision, GroupRow, NodeRow, QueryKind, RegionRow,
};

use crate::error::{RequestError, StartError};
use crate::runtime::network::{NetworkOptions, plain};
use crate::runtime::observer::Asker;

/// Options of looking at a cluster; everything has a default. Made by [`Observer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing before `open`"]
pub struct ObserverBuilder {
    cluster: String,
    network: NetworkOptions,
    service: Option<SocketAddr>,
    timeout: Duration,
}

impl ObserverBuilder {
    /// The cluster: `default` if not given.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sockets: interfaces and addresses.
    pub fn network(mut self, network: NetworkOptions) -> Self {
        self.network = network;
        self
    }

    /// The network interface, all else of the network as it is: short for
    /// [`NetworkOptions::interface`].
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.network.interfaces = vec![interface.into()];
        self
    }

    /// Where the membership service is; looked for by multicast if not given.
    pub fn service(mut self, address: SocketAddr) -> Self {
        self.service = Some(plain(address));
        self
    }

    /// Longest time of a list; 10 seconds if not given.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens the sockets. Nothing is sent yet.
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn open(self) -> Result<Observer, StartError> {
        Ok(Observer {
            asker: Asker::open(&self.cluster, &self.network, self.service)?,
            timeout: self.timeout,
        })
    }
}

/// Looks at a cluster without being in it: asks the membership service for its lists, and is no node
/// by that. Nobody sees it in a list, nothing waits for it, and it costs the cluster a few packets
/// (rule R-MEM-18 of `PROTOCOL.md`).
///
/// It has no thread: its calls ask, and wait for the answer. A program that has a [`Node`] asks by
/// [`Node::list_nodes`] and its like.
///
/// ```
/// use qsm::Observer;
///
/// # let cluster = format!("doc-observer-{}", std::process::id());
/// # let builder = qsm::Node::builder().cluster(cluster.clone()).interface("lo");
/// # let node = builder.name("ticker").embedded_service(qsm::Embedded::Always).start()?;
/// # let _prices = node.subscribe(["prices"])?;
/// # let observer = Observer::builder().cluster(cluster);
/// # /*
/// let observer = Observer::builder();
/// # */
/// let mut observer = observer.interface("lo").open()?;
/// for node in observer.list_nodes()? {
///     println!("{} at {} receives {} groups", node.name, node.address, node.subscriptions);
/// }
/// # assert_eq!(observer.list_nodes()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Node`]: crate::Node
/// [`Node::list_nodes`]: crate::Node::list_nodes
pub struct Observer {
    asker: Asker,
    timeout: Duration,
}

impl Observer {
    /// Begins to describe one.
    pub fn builder() -> ObserverBuilder {
        ObserverBuilder {
            cluster: "default".to_owned(),
            network: NetworkOptions::default(),
            service: None,
            timeout: Duration::from_secs(10),
        }
    }

    /// The interface by which it asks, chosen if none was given.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        self.asker.interface()
    }

    /// Packets of other clusters that have come to it so far. If no service answers and there are
    /// some, the cluster's name may be wrong. It hears them where the service is looked for by
    /// multicast, during its calls.
    #[must_use]
    pub fn other_clusters(&self) -> u64 {
        self.asker.strangers()
    }

    /// Tells whether packets of the cluster have come that a key protects, while this observer has none
    /// ([`NetworkOptions::key`](crate::NetworkOptions::key)). It hears them where the service is looked for by
    /// multicast, during its calls.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.asker.needs_key()
    }

    /// All nodes of the cluster, as [`Node::list_nodes`](crate::Node::list_nodes) has them.
    ///
    /// # Errors
    /// [`RequestError::Timeout`]: no membership service answers in time, or multicast does not pass
    /// between it and this host. [`RequestError::Refused`]: the list is too long, or changes faster
    /// than it arrives.
    pub fn list_nodes(&mut self) -> Result<Vec<NodeRow>, RequestError> {
        match self.list(QueryKind::Nodes)? {
            AnswerRows::Nodes(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Groups(_) | AnswerRows::Regions(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// All groups of the cluster.
    ///
    /// # Errors
    /// As [`Observer::list_nodes`].
    pub fn list_groups(&mut self) -> Result<Vec<GroupRow>, RequestError> {
        match self.list(QueryKind::Groups)? {
            AnswerRows::Groups(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Nodes(_) | AnswerRows::Regions(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// All regions of the cluster.
    ///
    /// # Errors
    /// As [`Observer::list_nodes`].
    pub fn list_regions(&mut self) -> Result<Vec<RegionRow>, RequestError> {
        match self.list(QueryKind::Regions)? {
            AnswerRows::Regions(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Nodes(_) | AnswerRows::Groups(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// Why the messages of a group go where they go, as the membership service decided: its regions,
    /// hints that bind them, and what else is possible. `None`: there is no group of this name.
    ///
    /// # Errors
    /// [`RequestError::Refused`]: the name is none. [`RequestError::Timeout`]: as
    /// [`Observer::list_nodes`]; or the service is of an earlier version.
    pub fn explain_group(&mut self, name: &str) -> Result<Option<GroupDecision>, RequestError> {
        if !(1..=GROUP_NAME_BYTES_MAX).contains(&name.len()) {
            return Err(RequestError::Refused {
                reason: format!(
                    "{name:?} is no name of a group: 1 to {GROUP_NAME_BYTES_MAX} bytes"
                ),
            });
        }
        let question = EnquiryQuestion::Group(name.to_owned());
        match self.asker.ask(question, self.timeout)? {
            EnquiryAnswer::Group(answer) => Ok(answer.decision),
            EnquiryAnswer::Rows(_) => Err(RequestError::mixed_up()),
        }
    }

    fn list(&mut self, list: QueryKind) -> Result<AnswerRows, RequestError> {
        match self.asker.ask(EnquiryQuestion::List(list), self.timeout)? {
            EnquiryAnswer::Rows(rows) => Ok(rows),
            EnquiryAnswer::Group(_) => Err(RequestError::mixed_up()),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
