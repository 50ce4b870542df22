use core::fmt;

use qsm_metrics::{Object, quoted};

use crate::quantity::Quantity;

/// A quantity and what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// As the equation names it.
    pub name: String,
    /// The value.
    pub quantity: Quantity,
}

/// Where an equation is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The document.
    pub document: &'static str,
    /// Number of the section, empty where a document has none.
    pub section: &'static str,
    /// Heading of the section.
    pub title: &'static str,
}

impl Source {
    /// A section of *Topics in High-Performance Messaging*.
    pub(crate) const fn topics(section: &'static str, title: &'static str) -> Self {
        Self {
            document: "Informatica, Topics in High-Performance Messaging (2023)",
            section,
            title,
        }
    }

    /// A page of this product's book.
    pub(crate) const fn book(title: &'static str) -> Self {
        Self {
            document: "Quicksilver, the book",
            section: "",
            title,
        }
    }

    fn json(&self) -> String {
        Object::new()
            .text("document", self.document)
            .text("section", self.section)
            .text("title", self.title)
            .to_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.section {
            "" => write!(f, "{}, \"{}\"", self.document, self.title),
            section => write!(
                f,
                "{}, section {section}, \"{}\"",
                self.document, self.title
            ),
        }
    }
}

/// An answer: equation, inputs, results, what to do, and the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What was calculated, in a few words.
    pub subject: &'static str,
    /// The equations, in the words of inputs and results.
    pub equations: Vec<&'static str>,
    /// What was put in.
    pub inputs: Vec<Named>,
    /// What comes out, the most important first.
    pub results: Vec<Named>,
    /// Sentences about what the results mean, and commands that put them into force.
    pub notes: Vec<String>,
    /// Where the equations are from.
    pub sources: Vec<Source>,
}

impl Advice {
    pub(crate) fn new(subject: &'static str) -> Self {
        Self {
            subject,
            equations: Vec::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            notes: Vec::new(),
            sources: Vec::new(),
        }
    }

    pub(crate) fn equation(mut self, equation: &'static str, source: Source) -> Self {
        self.equations.push(equation);
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
        self
    }

    pub(crate) fn given(mut self, name: impl Into<String>, quantity: impl Into<Quantity>) -> Self {
        self.inputs.push(Named {
            name: name.into(),
            quantity: quantity.into(),
        });
        self
    }

    pub(crate) fn gives(mut self, name: impl Into<String>, quantity: impl Into<Quantity>) -> Self {
        self.results.push(Named {
            name: name.into(),
            quantity: quantity.into(),
        });
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The result of this name.
    #[must_use]
    pub fn result(&self, name: &str) -> Option<Quantity> {
        let found = self.results.iter().find(|result| result.name == name);
        found.map(|result| result.quantity)
    }

    /// As a JSON object; values are in base units.
    #[must_use]
    pub fn to_json(&self) -> String {
        let named = |all: &[Named]| {
            let object = |named: &Named| {
                Object::new()
                    .text("name", &named.name)
                    .json("value", &named.quantity.value.to_string())
                    .text("unit", named.quantity.unit.symbol())
                    .text("text", &named.quantity.to_string())
                    .to_string()
            };
            all.iter().map(object).collect::<Vec<_>>().into_iter()
        };
        Object::new()
            .text("subject", self.subject)
            .list("equations", self.equations.iter().map(|text| quoted(text)))
            .list("inputs", named(&self.inputs))
            .list("results", named(&self.results))
            .list("notes", self.notes.iter().map(|text| quoted(text)))
            .list("sources", self.sources.iter().map(Source::json))
            .to_string()
    }
}

/// Paragraphs for people.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.subject)?;
        for equation in &self.equations {
            writeln!(f, "  equation  {equation}")?;
        }
        let all = self.inputs.iter().chain(&self.results);
        let width = all.map(|named| named.name.chars().count()).max();
        let width = width.unwrap_or_default();
        for (word, list) in [("input", &self.inputs), ("result", &self.results)] {
            for Named { name, quantity } in list {
                writeln!(f, "  {word:<8}  {name:<width$}  {quantity}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "  note      {note}")?;
        }
        for source in &self.sources {
            writeln!(f, "  source    {source}")?;
        }
        Ok(())
    }
}

/// Inputs that make no sense. The text names the cause, and after a semicolon the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdviceError {
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl AdviceError {
    pub(crate) fn new(cause: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            cause: cause.into(),
            remedy,
        }
    }
}

impl fmt::Display for AdviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.remedy)
    }
}

impl core::error::Error for AdviceError {}
