//! The words that formats are declared in.

/// A field of a packet, of a message, or of an entry of a list in one.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name in display filters, behind `qsm.`. Its last part, with spaces for underscores, is what the
    /// tree of a packet shows.
    pub name: &'static str,
    /// Meaning, in a few words.
    pub says: &'static str,
    /// Form on the wire.
    pub shape: Shape,
    /// Label in the drawings of PROTOCOL.md if it is not the last part of the name; empty if the field
    /// is not drawn.
    pub drawn: Option<&'static str>,
    /// Shown in the line of the packet too.
    pub brief: bool,
}

/// Form of a field on the wire. Numbers are little-endian.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A number of 1, 2, 4 or 8 bytes.
    Number(Number),
    /// One byte, 0 or 1.
    Flag,
    /// A bit of the number before it, 0 or 1.
    Bit,
    /// A node (8) and its incarnation (4).
    Origin,
    /// A family (1: 4 or 6), an address in network order (4 or 16) and a port (2).
    Address,
    /// A length (2) and so many bytes of UTF-8.
    Text,
    /// A first number (8) and a count (4), which is not 0.
    Range,
    /// So many bytes as something else says.
    Bytes,
    /// Fields one after the other.
    Record(&'static [Field]),
    /// A byte that is 0, or 1 and then the value.
    Optional(&'static Field),
    /// Entries of one form.
    List(List),
    /// The number of a variant (1) and its fields.
    Choice(&'static [Variant]),
    /// All that is left, by a reader of its own in `engine.lua`. Its fields are declared here.
    Special(&'static str, &'static [Field]),
}

/// A number and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    /// Bytes on the wire.
    pub bytes: u8,
    /// Shown in hexadecimal digits.
    pub hex: bool,
    /// Unit, empty if it has none.
    pub unit: &'static str,
    /// Names of all legal values, empty if there are others.
    pub names: &'static [(u64, &'static str)],
    /// Meaning of the largest value if it is none of the others, empty if there is none.
    pub all_ones: &'static str,
    /// Smallest legal value.
    pub min: u64,
}

/// A list and its limits.
#[derive(Debug, Clone, Copy)]
pub struct List {
    /// Place of the number of entries.
    pub count: Count,
    /// Most entries.
    pub max: u32,
    /// Form of one entry.
    pub entry: &'static Field,
}

/// Place of a list's number of entries.
#[derive(Debug, Clone, Copy)]
pub enum Count {
    /// Four bytes before the first entry.
    Before,
    /// An earlier field.
    Field(&'static str),
}

/// A variant of a message.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its number on the wire.
    pub number: u8,
    /// Its name in PROTOCOL.md.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A kind of packet, behind the header that all have.
#[derive(Debug, Clone, Copy)]
pub struct PacketFormat {
    /// The number and name of it.
    pub kind: qsm_wire::Kind,
    /// Its fields.
    pub fields: &'static [Field],
    /// Name of a function in `engine.lua` that checks fields against each other, empty if there is none.
    pub check: &'static str,
}

impl Field {
    /// A field of this form.
    pub(crate) const fn new(name: &'static str, shape: Shape, says: &'static str) -> Self {
        Self {
            name,
            says,
            shape,
            drawn: None,
            brief: false,
        }
    }

    /// The same, called otherwise in PROTOCOL.md.
    pub(crate) const fn drawn(mut self, drawn: &'static str) -> Self {
        self.drawn = Some(drawn);
        self
    }

    /// The same, shown in the line of the packet.
    pub(crate) const fn brief(mut self) -> Self {
        self.brief = true;
        self
    }

    /// The same, shown in hexadecimal digits.
    pub(crate) const fn hex(mut self) -> Self {
        if let Shape::Number(number) = &mut self.shape {
            number.hex = true;
        }
        self
    }

    /// The same, with a unit.
    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        if let Shape::Number(number) = &mut self.shape {
            number.unit = unit;
        }
        self
    }

    /// The same, with a meaning of the largest value.
    pub(crate) const fn all_ones(mut self, meaning: &'static str) -> Self {
        if let Shape::Number(number) = &mut self.shape {
            number.all_ones = meaning;
        }
        self
    }

    /// The same, never smaller than this.
    pub(crate) const fn min(mut self, min: u64) -> Self {
        if let Shape::Number(number) = &mut self.shape {
            number.min = min;
        }
        self
    }

    /// The last part of the name, in words.
    #[must_use]
    pub fn label(&self) -> String {
        let last = self.name.rsplit('.').next().unwrap_or(self.name);
        last.replace('_', " ")
    }

    /// Label in the drawings of PROTOCOL.md.
    #[must_use]
    pub fn drawing(&self) -> String {
        self.drawn.map_or_else(|| self.label(), str::to_owned)
    }
}

impl Shape {
    /// Bytes on the wire, `None` if they depend on the content.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        Some(match self {
            Self::Number(number) => usize::from(number.bytes),
            Self::Bit => 0,
            Self::Flag => 1,
            Self::Origin | Self::Range => 12,
            Self::Record(fields) => fields
                .iter()
                .map(|field| field.shape.bytes())
                .sum::<Option<usize>>()?,
            _ => return None,
        })
    }

    /// Fields that are parts of this one.
    #[must_use]
    pub fn inner(&self) -> Vec<&'static Field> {
        match self {
            Self::Record(fields) | Self::Special(_, fields) => fields.iter().collect(),
            Self::Optional(field) => vec![*field],
            Self::List(list) => vec![list.entry],
            Self::Choice(variants) => variants.iter().flat_map(|variant| variant.fields).collect(),
            _ => Vec::new(),
        }
    }
}

/// A number of so many bytes.
pub(crate) const fn number(bytes: u8) -> Number {
    Number {
        bytes,
        hex: false,
        unit: "",
        names: &[],
        all_ones: "",
        min: 0,
    }
}

/// A field of one byte.
pub(crate) const fn u8(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Number(number(1)), says)
}

/// A field of two bytes.
pub(crate) const fn u16(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Number(number(2)), says)
}

/// A field of four bytes.
pub(crate) const fn u32(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Number(number(4)), says)
}

/// A field of eight bytes.
pub(crate) const fn u64(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Number(number(8)), says)
}

/// A field of one byte whose values have names.
pub(crate) const fn named(
    name: &'static str,
    names: &'static [(u64, &'static str)],
    says: &'static str,
) -> Field {
    let number = Number { names, ..number(1) };
    Field::new(name, Shape::Number(number), says)
}

/// A field of 0 or 1.
pub(crate) const fn flag(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Flag, says)
}

/// A field with a node and its incarnation.
pub(crate) const fn origin(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Origin, says)
}

/// A field with an address and port.
pub(crate) const fn address(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Address, says)
}

/// A field with text.
pub(crate) const fn text(name: &'static str, says: &'static str) -> Field {
    Field::new(name, Shape::Text, says)
}

/// A list whose number of entries comes first, with four bytes.
pub(crate) const fn list(name: &'static str, entry: &'static Field, says: &'static str) -> Field {
    let list = List {
        count: Count::Before,
        max: u32::MAX,
        entry,
    };
    Field::new(name, Shape::List(list), says)
}

/// A list whose number of entries is in an earlier field.
pub(crate) const fn counted(
    name: &'static str,
    count: &'static str,
    max: u32,
    entry: &'static Field,
    says: &'static str,
) -> Field {
    let list = List {
        count: Count::Field(count),
        max,
        entry,
    };
    Field::new(name, Shape::List(list), says)
}

/// A value that may be missing.
pub(crate) const fn optional(name: &'static str, value: &'static Field) -> Field {
    Field::new(name, Shape::Optional(value), "says if the value follows")
}
