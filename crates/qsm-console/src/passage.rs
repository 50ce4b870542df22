//! Explanations in parts, for the terminal and for pages.

use crate::table::Table;

/// A part of an explanation.
#[derive(Debug, Clone)]
pub enum Passage {
    /// A line that says what follows is about.
    Heading(String),
    /// A line.
    Text(String),
    /// Something that is wrong, with its remedy.
    Finding(String),
    /// An empty line.
    Gap,
    /// A table.
    Table(Table),
}

impl Passage {
    /// All of them, for the terminal.
    #[must_use]
    pub fn render(passages: &[Self]) -> String {
        let lines = passages.iter().map(|passage| match passage {
            Self::Heading(line) | Self::Text(line) => format!("{line}\n"),
            Self::Finding(line) => format!("- {line}\n"),
            Self::Gap => "\n".to_owned(),
            Self::Table(table) => table.render(),
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Align;

    #[test]
    fn passages_are_lines_for_the_terminal() {
        let mut table = Table::new(&[("A", Align::Left)]);
        table.row(["b"]);
        let passages = [
            Passage::Heading("group news".to_owned()),
            Passage::Gap,
            Passage::Table(table),
            Passage::Text("c".to_owned()),
            Passage::Finding("d".to_owned()),
        ];
        assert_eq!(Passage::render(&passages), "group news\n\nA\nb\nc\n- d\n");
    }
}
