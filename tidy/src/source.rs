/// A Rust file, line by line: code with strings and comments blanked out, and comments alone.
#[derive(Debug, Default)]
pub struct Source {
    code: Vec<String>,
    comments: Vec<String>,
    /// First line of the module of unit tests at the end, if there is one.
    tests_at: Option<usize>,
}

impl Source {
    /// Cuts a file into its parts.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut cutter = Cutter::new(text);
        cutter.run();
        let mut source = Self {
            code: cutter.code,
            comments: cutter.comments,
            tests_at: None,
        };
        source.tests_at = source.find_tests();
        source
    }

    /// Whether all of the file is test.
    #[must_use]
    pub fn is_test(path: &str) -> bool {
        path.contains("/tests/") || path.ends_with("/tests.rs") || path.starts_with("fuzz/")
    }

    /// How many lines it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// Line numbers, from 1, and code; the unit tests at the end too.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(at, line)| (at + 1, line.as_str()))
    }

    /// Line numbers, from 1, and code, without the unit tests at the end.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().take(self.tests_at.unwrap_or(usize::MAX))
    }

    /// Comments, without those of the unit tests at the end.
    pub fn product_comments(&self) -> impl Iterator<Item = &str> {
        let lines = self.comments.iter().map(String::as_str);
        lines.take(self.tests_at.unwrap_or(usize::MAX))
    }

    /// Comments of the unit tests at the end.
    pub fn test_comments(&self) -> impl Iterator<Item = &str> {
        self.comments
            .iter()
            .map(String::as_str)
            .skip(self.tests_at.unwrap_or(usize::MAX))
    }

    /// The comment on this line, counted from 1; empty if there is none.
    #[must_use]
    pub fn comment(&self, line: usize) -> &str {
        line.checked_sub(1)
            .and_then(|at| self.comments.get(at))
            .map_or("", String::as_str)
    }

    /// Whether a line of code has this word, not as a part of a longer one.
    #[must_use]
    pub fn has_word(line: &str, word: &str) -> bool {
        let part = |letter: char| letter.is_alphanumeric() || letter == '_';
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(part) && (!after.is_some_and(part) || !word.ends_with(part))
        })
    }

    fn find_tests(&self) -> Option<usize> {
        self.code.windows(2).position(|lines| {
            lines[0].trim() == "#[cfg(test)]"
                && lines[1].trim_start().starts_with("mod ")
                && lines[1].trim_end().ends_with('{')
        })
    }
}

/// Goes through a file letter by letter.
struct Cutter {
    letters: Vec<char>,
    at: usize,
    code: Vec<String>,
    comments: Vec<String>,
}

impl Cutter {
    fn new(text: &str) -> Self {
        Self {
            letters: text.chars().collect(),
            at: 0,
            code: vec![String::new()],
            comments: vec![String::new()],
        }
    }

    fn run(&mut self) {
        while let Some(letter) = self.peek(0) {
            match (letter, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('r', Some('"' | '#')) if self.raw_string() => {}
                ('\'', _) if self.letter() => {}
                _ => {
                    self.take_code();
                }
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    /// Moves on by one letter; a line's end begins a new line of both parts.
    fn step(&mut self) -> Option<char> {
        let letter = self.peek(0)?;
        self.at += 1;
        if letter == '\n' {
            self.code.push(String::new());
            self.comments.push(String::new());
        }
        Some(letter)
    }

    fn take_code(&mut self) {
        if let Some(letter) = self.step().filter(|letter| *letter != '\n') {
            push(&mut self.code, letter);
        }
    }

    fn take_comment(&mut self) {
        if let Some(letter) = self.step().filter(|letter| *letter != '\n') {
            push(&mut self.comments, letter);
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.take_comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.take_comment();
                    continue;
                }
            }
            self.take_comment();
            self.take_comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take_code();
        while let Some(letter) = self.step() {
            match letter {
                '\\' => {
                    self.step();
                }
                '"' => break,
                _ => {}
            }
        }
        push(&mut self.code, '"');
    }

    /// Passes over `r"…"` or `r#"…"#`; `false` if this is something else.
    fn raw_string(&mut self) -> bool {
        let inside_word = self.at.checked_sub(1).and_then(|at| self.letters.get(at));
        if inside_word
            .is_some_and(|letter| (letter.is_alphanumeric() || *letter == '_') && *letter != 'b')
        {
            return false;
        }
        let hashes = (1..)
            .take_while(|ahead| self.peek(*ahead) == Some('#'))
            .count();
        if self.peek(1 + hashes) != Some('"') {
            return false;
        }
        for _ in 0..hashes + 2 {
            self.step();
        }
        while self.peek(0).is_some() {
            let end = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.step();
            if end {
                for _ in 0..hashes {
                    self.step();
                }
                break;
            }
        }
        self.code
            .iter_mut()
            .next_back()
            .into_iter()
            .for_each(|line| line.push_str("\"\""));
        true
    }

    /// Passes over `'x'`; `false` if this is a lifetime.
    fn letter(&mut self) -> bool {
        let length = match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => (3..12).find(|ahead| self.peek(*ahead) == Some('\'')),
            (Some(_), Some('\'')) => Some(2),
            _ => None,
        };
        let Some(length) = length else { return false };
        for _ in 0..=length {
            self.step();
        }
        true
    }
}

fn push(lines: &mut [String], letter: char) {
    if let Some(line) = lines.last_mut() {
        line.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Source::new(text)
            .code()
            .map(|(_, line)| line.trim().to_owned())
            .collect()
    }

    #[test]
    fn strings_letters_and_comments_are_no_code() {
        assert_eq!(code("a(\"unsafe \\\" x\"); // unsafe"), ["a(\"\");"]);
        assert_eq!(code("a(r#\"one\n\"two\"#);"), ["a(", "\"\");"]);
        assert_eq!(
            code("a('\"', b'\\'', 'x); /* /* \" */ */ b"),
            ["a(, b, 'x);  b"]
        );
        assert_eq!(code("for r in x"), ["for r in x"]);
    }

    #[test]
    fn comments_keep_their_lines() {
        let source = Source::new("a\n// SAFETY: b\nc // d\n");
        assert_eq!(source.comment(2), "// SAFETY: b");
        assert_eq!(source.comment(3), "// d");
        assert_eq!(source.comment(0), "");
    }

    #[test]
    fn unit_tests_at_the_end_are_told_apart() {
        let source = Source::new("a\n#[cfg(test)]\nmod tests {\n// R\n}\n");
        assert_eq!(source.product().count(), 1);
        assert_eq!(
            source
                .test_comments()
                .filter(|line| line.contains('R'))
                .count(),
            1
        );
        let elsewhere = Source::new("#[cfg(test)]\nmod tests;\nb\n");
        assert_eq!(elsewhere.product().count(), elsewhere.len());
    }

    #[test]
    fn words_are_whole() {
        assert!(Source::has_word("unsafe { x }", "unsafe"));
        assert!(!Source::has_word("forbid(unsafe_code)", "unsafe"));
        assert!(Source::has_word("std::thread::spawn", "thread::"));
        assert!(!Source::has_word("my_thread::spawn", "thread::"));
    }
}
