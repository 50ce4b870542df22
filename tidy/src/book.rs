use crate::{Markdown, Repository};

/// The folder of the book's pages.
const SOURCE: &str = "docs";
/// The line by which a page says that it is a document of the root.
const INCLUDE: &str = "{{#include ";

/// The book: the pages that `docs/SUMMARY.md` lists, some of which are documents of the root.
#[derive(Debug)]
pub struct Book<'r> {
    repository: &'r Repository,
    chapters: Vec<Chapter>,
}

#[derive(Debug)]
struct Chapter {
    /// The page, relative to `docs/`.
    page: String,
    /// The file that its text comes from, relative to the root: a page, or what it includes.
    origin: String,
}

impl<'r> Book<'r> {
    /// Reads the list of pages.
    #[must_use]
    pub fn new(repository: &'r Repository) -> Self {
        let summary = repository.text(&format!("{SOURCE}/SUMMARY.md"));
        let listed = Markdown::new(&summary);
        let chapters = listed.links().into_iter().map(|(_, page)| Chapter {
            page: page.to_owned(),
            origin: origin(repository, page),
        });
        Self {
            chapters: chapters.collect(),
            repository,
        }
    }

    /// The pages, relative to `docs/`, in the order of the book.
    pub fn pages(&self) -> impl Iterator<Item = &str> {
        self.chapters.iter().map(|chapter| chapter.page.as_str())
    }

    /// The file that a page's text comes from, relative to the root.
    #[must_use]
    pub fn origin(&self, page: &str) -> Option<&str> {
        let mut chapters = self.chapters.iter();
        let found = chapters.find(|chapter| chapter.page == page)?;
        Some(&found.origin)
    }

    /// The text of a page with links as the book needs them: to a page where it is in the book,
    /// and none, but the file's name, where it is not.
    ///
    /// # Errors
    /// The links that lead nowhere.
    pub fn relink(&self, page: &str, text: &str) -> Result<String, Vec<String>> {
        let Some(origin) = self.origin(page) else {
            return Err(vec![format!("{page} is not in SUMMARY.md")]);
        };
        let mut faults = Vec::new();
        let mut inside = false;
        let mut linked = String::with_capacity(text.len());
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            }
            if inside {
                linked.push_str(line);
            } else {
                self.relink_line(page, origin, line, &mut linked, &mut faults);
            }
            linked.push('\n');
        }
        if faults.is_empty() {
            Ok(linked)
        } else {
            Err(faults)
        }
    }

    fn relink_line(
        &self,
        page: &str,
        origin: &str,
        line: &str,
        linked: &mut String,
        faults: &mut Vec<String>,
    ) {
        let mut rest = line;
        while let Some((before, label, target, after)) = first_link(rest) {
            rest = after;
            linked.push_str(before);
            match self.target(page, origin, target) {
                Some(Target::Link(target)) => {
                    linked.push_str(&format!("[{label}]({target})"));
                }
                Some(Target::Outside(file)) => linked.push_str(&named(label, &file)),
                None => faults.push(format!("{origin}: {target} leads nowhere")),
            }
        }
        linked.push_str(rest);
    }

    /// Where a link of a page leads in the book.
    fn target(&self, page: &str, origin: &str, link: &str) -> Option<Target> {
        if link.contains("://") || link.starts_with("mailto:") || link.starts_with('#') {
            return Some(Target::Link(link.to_owned()));
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = resolve(origin, file);
        if !self.repository.has(&file) {
            return None;
        }
        let mut chapters = self.chapters.iter();
        let within = match chapters.find(|chapter| chapter.origin == file) {
            Some(chapter) => html_source(&chapter.page),
            None => match file.strip_prefix("docs/") {
                Some(inside) if !file.ends_with(".md") => inside.to_owned(),
                _ => return Some(Target::Outside(file)),
            },
        };
        let mut target = relative(page, &within);
        if !anchor.is_empty() {
            target.push_str(&format!("#{anchor}"));
        }
        Some(Target::Link(target))
    }
}

enum Target {
    /// In the book, or on the web.
    Link(String),
    /// A file of the repository that the book does not have.
    Outside(String),
}

/// The document that a page consists of, if it includes one, else the page.
fn origin(repository: &Repository, page: &str) -> String {
    let path = format!("{SOURCE}/{page}");
    let text = repository.text(&path);
    let included = text.trim().strip_prefix(INCLUDE);
    match included.and_then(|rest| rest.strip_suffix("}}")) {
        Some(file) => resolve(&path, file.trim()),
        None => path,
    }
}

/// The first link of a line: what is before it, its label, its target, and what is after it.
fn first_link(line: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = line.find("](")?;
    let mut depth = 0;
    let open = line[..middle].char_indices().rev().find(|(_, letter)| {
        match letter {
            ']' => depth += 1,
            '[' if depth > 0 => depth -= 1,
            '[' => return true,
            _ => {}
        }
        false
    })?;
    let end = middle + line[middle..].find(')')?;
    let (label, target) = (&line[open.0 + 1..middle], &line[middle + 2..end]);
    Some((&line[..open.0], label, target.trim(), &line[end + 1..]))
}

/// A label without its link, and the file where the label does not name it.
fn named(label: &str, file: &str) -> String {
    let name = file.trim_end_matches('/').rsplit('/').next();
    if name.is_some_and(|name| label.contains(name)) || label.contains('`') {
        label.to_owned()
    } else {
        format!("{label} (`{file}`)")
    }
}

/// The book calls a folder's README its index.
fn html_source(page: &str) -> String {
    match page.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => page.to_owned(),
    }
}

/// A path that is written in a file, from the root.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The way from a page to a file, both of the same folder.
fn relative(from: &str, to: &str) -> String {
    let up = "../".repeat(from.matches('/').count());
    format!("{up}{to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_with_brackets_in_their_labels() {
        let line = "see [`a[0]`](b.md#c), and ![d](e.svg)";
        let (before, label, target, after) = first_link(line).unwrap();
        assert_eq!((before, label, target), ("see ", "`a[0]`", "b.md#c"));
        let (before, label, target, after) = first_link(after).unwrap();
        assert_eq!(
            (before, label, target, after),
            (", and !", "d", "e.svg", "")
        );
        assert!(first_link("no [link] (here)").is_none());
    }

    #[test]
    fn paths_are_resolved_and_made_relative() {
        assert_eq!(resolve("docs/a/b.md", "../../C.md"), "C.md");
        assert_eq!(resolve("docs/a/b.md", "c.md"), "docs/a/c.md");
        assert_eq!(relative("a/b.md", "c/d.md"), "../c/d.md");
        assert_eq!(html_source("figures/README.md"), "figures/index.md");
    }

    #[test]
    fn a_file_outside_is_named_once() {
        assert_eq!(
            named("hello.rs", "crates/qsm/examples/hello.rs"),
            "hello.rs"
        );
        assert_eq!(named("the program", "x/y.rs"), "the program (`x/y.rs`)");
    }
}
