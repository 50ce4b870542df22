/// A Markdown file, without its code blocks.
#[derive(Debug)]
pub struct Markdown {
    /// Line numbers, from 1, and lines; those of code blocks are left out.
    lines: Vec<(usize, String)>,
}

impl Markdown {
    /// Reads a file.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut inside = false;
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                lines.push((at + 1, line.to_owned()));
            }
        }
        Self { lines }
    }

    /// Headings of this level.
    pub fn headings(&self, level: usize) -> impl Iterator<Item = &str> {
        let mark = format!("{} ", "#".repeat(level));
        self.lines
            .iter()
            .filter_map(move |(_, line)| line.strip_prefix(&mark))
    }

    /// Line numbers and targets of links, pictures included.
    #[must_use]
    pub fn links(&self) -> Vec<(usize, &str)> {
        let mut links = Vec::new();
        for (number, line) in &self.lines {
            for (at, _) in line.match_indices("](") {
                let rest = &line[at + 2..];
                if let Some(end) = rest.find(')') {
                    links.push((*number, rest[..end].trim()));
                }
            }
        }
        links
    }

    /// Names by which links reach the headings, made the way that code hosts make them.
    #[must_use]
    pub fn anchors(&self) -> Vec<String> {
        (1..=6)
            .flat_map(|level| self.headings(level))
            .map(anchor)
            .collect()
    }

    /// The rows of the first table whose first column has this title, as cells.
    #[must_use]
    pub fn table(&self, first_column: &str) -> Vec<Vec<&str>> {
        let rows = self.lines.iter().map(|(_, line)| cells(line));
        let mut rows = rows.skip_while(|cells| cells.first() != Some(&first_column));
        rows.next();
        rows.skip(1).take_while(|cells| !cells.is_empty()).collect()
    }
}

fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim().strip_prefix('|') else {
        return Vec::new();
    };
    inner
        .trim_end_matches('|')
        .split('|')
        .map(str::trim)
        .collect()
}

fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\nsee [one](a.md#two-words), ![b](c.png)\n```sh\n# no title\n```\n\
                        ## Two words!\n| crate | x |\n|---|---|\n| `a` | 1 |\n\nend\n";

    #[test]
    fn code_blocks_are_left_out() {
        assert_eq!(
            Markdown::new(TEXT).headings(1).collect::<Vec<_>>(),
            ["Title"]
        );
    }

    #[test]
    fn links_anchors_and_tables_are_found() {
        let markdown = Markdown::new(TEXT);
        assert_eq!(markdown.links(), [(2, "a.md#two-words"), (2, "c.png")]);
        assert_eq!(markdown.anchors(), ["title", "two-words"]);
        assert_eq!(markdown.table("crate"), [["`a`", "1"]]);
    }
}
