//! Tables for the terminal.

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table: a heading, and rows of as many cells.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows yet.
    #[must_use]
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, control characters are made harmless.
    pub fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator<Item: ToString>,
    {
        let mut cells: Vec<String> = cells
            .into_iter()
            .map(|cell| printable(&cell.to_string()))
            .collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Headings, with the alignment of their columns.
    #[must_use]
    pub fn columns(&self) -> &[(&'static str, Align)] {
        &self.columns
    }

    /// Rows, without control characters.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The lines, each with its end; two spaces between columns, none at the end of lines.
    #[must_use]
    pub fn render(&self) -> String {
        let width = |at: usize, heading: &str| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([heading.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (heading, _))| width(at, heading))
            .collect();
        let headings: Vec<String> = self
            .columns
            .iter()
            .map(|(heading, _)| (*heading).to_owned())
            .collect();
        let mut text = String::new();
        for cells in [&headings].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, align)) in cells.iter().zip(&widths).zip(&self.columns) {
                let padding = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell, padding.as_str(), "  "]),
                    Align::Right => line.extend([padding.as_str(), cell, "  "]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names come from the network: what could steer the terminal is shown escaped.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("COUNT", Align::Right)]);
        table.row(["a", "1"]);
        table.row(["größer", "123456"]);
        table.row(["b"]);
        assert_eq!(
            table.render(),
            "NAME     COUNT\n\
             a            1\n\
             größer  123456\n\
             b\n"
        );
    }

    #[test]
    fn a_table_without_rows_is_its_heading() {
        assert_eq!(
            Table::new(&[("A", Align::Left), ("B", Align::Left)]).render(),
            "A  B\n"
        );
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
    }
}
