use serde::Serialize;

/// A thing that can be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A node, by its name.
    Node(String),
    /// A group, by its name.
    Group(String),
}

/// An explanation, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Parts, in their order.
    pub sections: Vec<Section>,
    /// Regions that a group's messages go to, as far as nodes here know.
    pub regions: Vec<u32>,
    /// Names of nodes here that publish to the group.
    pub publishers: Vec<String>,
    /// Names of members that get copies by unicast.
    pub copies: Vec<String>,
}

/// A part of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A remark on what is wrong.
    Finding(String),
    /// A table.
    Table {
        /// Headings.
        columns: Vec<String>,
        /// Columns of numbers, which are aligned to the right.
        numbers: Vec<bool>,
        /// As many cells each.
        rows: Vec<Vec<String>>,
    },
}
