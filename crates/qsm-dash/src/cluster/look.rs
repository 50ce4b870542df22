use serde::Serialize;
use serde_json::{Map, Value};

use super::explanation::{Explanation, Subject};

/// A view of a cluster that can be asked again and again, from several threads.
pub trait Source: Send + Sync + 'static {
    /// Looks. It may take seconds, as where no membership service answers.
    fn look(&self) -> Look;

    /// Explains a node or a group. It may take seconds.
    ///
    /// # Errors
    /// Nothing is known of it, in words.
    fn explain(&self, subject: &Subject) -> Result<Explanation, String>;
}

/// Knowledge after a look.
#[derive(Debug, Clone)]
pub struct Look {
    /// Lists that the membership service gave, or why it said nothing.
    pub cluster: Result<Cluster, String>,
    /// Nodes of this host. They are shown to holders of the token alone.
    pub here: Vec<Row>,
    /// Sums, for the charts.
    pub point: Point,
}

/// Lists of the membership service.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Nodes.
    pub nodes: Vec<Row>,
    /// Groups.
    pub groups: Vec<Row>,
    /// Regions.
    pub regions: Vec<Row>,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Identity, unique in its table.
    pub key: String,
    /// Name for people. It may be hostile.
    pub name: String,
    /// State.
    pub health: Health,
    /// The fault.
    pub trouble: Option<String>,
    /// The remedy.
    pub remedy: Option<String>,
    /// Everything else, by the names that the lists in JSON have.
    pub fields: Map<String, Value>,
}

impl Row {
    /// The row as the page gets it.
    pub(crate) fn object(&self) -> Map<String, Value> {
        let mut object = self.fields.clone();
        object.insert("name".to_owned(), self.name.clone().into());
        object.insert("health".to_owned(), self.health.name().into());
        object.insert("trouble".to_owned(), self.trouble.clone().into());
        object.insert("remedy".to_owned(), self.remedy.clone().into());
        object
    }
}

/// State of what a row is about, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nobody waits for it, or something is lost.
    Bad,
    /// Something costs more than it should.
    Doubtful,
    /// Nothing is wrong.
    Good,
}

impl Health {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Doubtful => "doubtful",
            Self::Good => "good",
        }
    }
}

/// Sums at a moment. `None`: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Point {
    /// Messages a second that nodes of the cluster have accepted.
    pub sent: Option<f64>,
    /// Messages a second that they have delivered.
    pub received: Option<f64>,
    /// Of nodes of this host; for holders of the token.
    #[serde(flatten)]
    pub here: HerePoint,
}

/// Sums of the nodes of this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HerePoint {
    /// Packets a second that were missing when others had come.
    pub missing: Option<f64>,
    /// Of these, packets a second that were repaired.
    pub repaired: Option<f64>,
    /// Messages a second that are lost for good, or for which a reader had no room.
    pub lost: Option<f64>,
    /// The longest of the times within which 99 % of the repairs came, seconds.
    pub repair_p99: Option<f64>,
    /// The longest of the times after which 99 % of the packets were known to be with everybody, seconds.
    pub stable_p99: Option<f64>,
}

impl Point {
    /// Figures for those who have no token.
    pub(crate) fn public(self) -> Self {
        Self {
            here: HerePoint::default(),
            ..self
        }
    }
}
