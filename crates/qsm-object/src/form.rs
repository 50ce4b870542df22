//! Forms of values, as a schema names them.

use std::collections::BTreeMap;

use crate::header::Header;

/// A form of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Bool,
    /// Of so many bits.
    Unsigned(u32),
    Signed(u32),
    F32,
    F64,
    Text,
    Bytes,
    Maybe(Box<Self>),
    List(Box<Self>),
    /// Of keys and values.
    Map(Box<Self>, Box<Self>),
    /// One that the schema names.
    Named(String),
}

/// A form that the schema names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Definition {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) content: Option<Form>,
}

/// A type of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

/// Everything that a schema says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forms {
    pub(crate) types: BTreeMap<Header, Type>,
    pub(crate) definitions: BTreeMap<String, Definition>,
}
