use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;

/// What is wrong at a place of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// From 1, in characters.
    pub(super) column: usize,
    /// What is there, and what was expected.
    pub(super) reason: String,
}

/// The words of a line, read one after the other.
#[derive(Debug)]
pub(super) struct Words<'a> {
    words: Vec<(usize, &'a str)>,
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    /// The line without its comment.
    pub(super) fn new(line: &'a str) -> Self {
        let statement = line.split('#').next().unwrap_or_default();
        let mut words = Vec::new();
        let mut begin = None;
        let ends = statement.char_indices().chain([(statement.len(), ' ')]);
        for (column, (byte, character)) in ends.enumerate() {
            match (begin, character.is_whitespace()) {
                (None, false) => begin = Some((column, byte)),
                (Some((from, start)), true) => {
                    words.push((from + 1, &statement[start..byte]));
                    begin = None;
                }
                _ => {}
            }
        }
        Self {
            words,
            at: 0,
            end: statement.trim_end().chars().count() + 2,
        }
    }

    /// Where the next word begins, or would.
    pub(super) fn column(&self) -> usize {
        self.words.get(self.at).map_or(self.end, |word| word.0)
    }

    /// Where the word begins that was read last.
    pub(super) fn last_column(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.words.get(at));
        last.map_or(1, |word| word.0)
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|word| word.1)
    }

    pub(super) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Wrong at the word that was read last.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Wrong {
        Wrong {
            column: self.last_column(),
            reason: reason.into(),
        }
    }

    /// The next word, which must be there.
    pub(super) fn need(&mut self, expected: &str) -> Result<&'a str, Wrong> {
        let column = self.column();
        self.take().ok_or_else(|| Wrong {
            column,
            reason: format!("the line ends here; expected {expected}"),
        })
    }

    /// The next word, which must be this one.
    pub(super) fn word(&mut self, expected: &str) -> Result<(), Wrong> {
        match self.need(&format!("`{expected}`"))? {
            word if word == expected => Ok(()),
            word => Err(self.wrong(format!("found `{word}`; expected `{expected}`"))),
        }
    }

    /// The next word, which must be one of these; its place among them.
    pub(super) fn choice<T: Copy>(
        &mut self,
        what: &str,
        choices: &[(&str, T)],
    ) -> Result<T, Wrong> {
        let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
        let word = self.need(&format!("{what}: {}", names.join(", ")))?;
        let found = choices.iter().find(|choice| choice.0 == word);
        found.map(|choice| choice.1).ok_or_else(|| {
            let meant = nearest(word, names.iter().copied())
                .map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
            let names = names.join(", ");
            self.wrong(format!(
                "unknown word `{word}`{meant}; expected {what}: {names}"
            ))
        })
    }

    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Wrong> {
        let expected = format!("{what}, a whole number");
        let word = self.need(&expected)?;
        word.parse()
            .map_err(|_| self.wrong(not_a_number(word, &expected)))
    }

    /// A number within bounds.
    pub(super) fn bounded(
        &mut self,
        what: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, Wrong> {
        let number = self.number(what)?;
        if bounds.contains(&number) {
            return Ok(number);
        }
        let (least, most) = bounds.into_inner();
        Err(self.wrong(format!(
            "{number} is out of range; expected {what} from {least} to {most}"
        )))
    }

    /// `name number`.
    pub(super) fn named<T: FromStr>(&mut self, name: &str) -> Result<T, Wrong> {
        self.word(name)?;
        self.number(name)
    }

    pub(super) fn time(&mut self, what: &str) -> Result<Duration, Wrong> {
        let expected = format!("{what}, a time such as 20ms, 3s or 50us");
        let word = self.need(&expected)?;
        let units = [
            ("ns", 1),
            ("us", 1000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ];
        let found = units.into_iter().find_map(|(unit, ns)| {
            let count: u64 = word.strip_suffix(unit)?.parse().ok()?;
            Some(Duration::from_nanos(count.checked_mul(ns)?))
        });
        found.ok_or_else(|| self.wrong(not_a_number(word, &expected)))
    }

    /// Per cent with up to four decimals, as parts per million.
    pub(super) fn percent(&mut self, what: &str) -> Result<u32, Wrong> {
        let expected = format!("{what}, a share from 0% to 100% such as 5% or 0.1%");
        let word = self.need(&expected)?;
        parts_per_million(word)
            .filter(|ppm| *ppm <= 1_000_000)
            .ok_or_else(|| self.wrong(not_a_number(word, &expected)))
    }

    pub(super) fn host(&mut self, nodes: usize) -> Result<usize, Wrong> {
        let word = self.need("a host's number")?;
        self.check_host(word, nodes)
    }

    fn check_host(&self, word: &str, nodes: usize) -> Result<usize, Wrong> {
        let number = word.parse().ok().filter(|host| *host <= nodes);
        number.ok_or_else(|| {
            self.wrong(format!(
                "`{word}` is no host; expected 0 (the membership service) or 1 to {nodes} \
                 (`nodes` comes first)"
            ))
        })
    }

    /// Hosts up to the word `until`, which is taken too, or the end of the line.
    pub(super) fn hosts(&mut self, until: &str, nodes: usize) -> Result<Vec<usize>, Wrong> {
        let mut hosts = Vec::new();
        while let Some(word) = self.take() {
            if word == until {
                return Ok(hosts);
            }
            hosts.push(self.check_host(word, nodes)?);
        }
        if until.is_empty() {
            return Ok(hosts);
        }
        Err(Wrong {
            column: self.end,
            reason: format!("the line ends here; expected `{until}`"),
        })
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), Wrong> {
        match self.take() {
            Some(word) => Err(self.wrong(format!("found `{word}`; expected the end of the line"))),
            None => Ok(()),
        }
    }
}

fn not_a_number(word: &str, expected: &str) -> String {
    if word.starts_with('-') {
        format!("`{word}` is negative; expected {expected}")
    } else {
        format!("found `{word}`; expected {expected}")
    }
}

fn parts_per_million(word: &str) -> Option<u32> {
    let number = word.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let decimals: u32 = format!("{part:0<4}")
        .parse()
        .ok()
        .filter(|_| part.len() <= 4)?;
    let whole: u32 = whole.parse().ok()?;
    whole.checked_mul(10_000)?.checked_add(decimals)
}

/// The name that differs least from the word, if it is not far.
pub(super) fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.map(|name| (distance(word, name), name)).min()?;
    (near.0 <= 1 + word.len() / 4).then_some(near.1)
}

/// Letters to add, to take away or to change.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, left) in one.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, right) in other.chars().enumerate() {
            let change = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_columns() {
        let mut words = Words::new("  at 2s  crash 3 # that one");
        let mut seen = Vec::new();
        while let Some(word) = words.take() {
            seen.push((words.last_column(), word));
        }
        assert_eq!(seen, [(3, "at"), (6, "2s"), (10, "crash"), (16, "3")]);
        assert_eq!(words.column(), 18);
    }

    #[test]
    fn shares_are_read_exactly() {
        for (word, ppm) in [("5%", 50_000), ("0.1%", 1000), ("12.3456%", 123_456)] {
            assert_eq!(Words::new(word).percent("loss"), Ok(ppm));
        }
        for word in ["5", "-5%", "101%", "1.23456%", "%", "x%", "5000000%"] {
            assert!(Words::new(word).percent("loss").is_err(), "{word}");
        }
    }

    #[test]
    fn the_nearest_word_is_proposed_if_it_is_near() {
        let names = ["crash", "freeze", "heal"];
        assert_eq!(nearest("crahs", names.into_iter()), Some("crash"));
        assert_eq!(nearest("frieze", names.into_iter()), Some("freeze"));
        assert_eq!(nearest("explode", names.into_iter()), None);
    }
}
