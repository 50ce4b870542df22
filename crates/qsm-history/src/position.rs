//! Position of a reader, and from where messages begin for it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use qsm::{Incarnation, NodeId, Origin, Received};

use crate::missing::Item;

/// First line of a position as text.
const HEAD: &str = "qsm-position 1";

/// Place from which messages of groups begin for a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// Messages that are sent from now on. No keeper is asked.
    #[default]
    Now,
    /// The last messages of each sender, so many of each.
    Last(u64),
    /// Messages behind a position; of senders that it does not know, all.
    Resume(Position),
}

/// Number of the last message that was read, of each sender in each group. As text: a line `qsm-position 1`, then a line
/// for each, `SENDER NUMBER GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    groups: BTreeMap<String, BTreeMap<Origin, u64>>,
}

/// Why a text or file is no position.
#[derive(Debug)]
#[non_exhaustive]
pub enum PositionError {
    /// The file cannot be read or written.
    Io(io::Error),
    /// The first line is not that of a position of this version.
    Head,
    /// This line, counted from 1, is not `SENDER NUMBER GROUP`.
    Line(usize),
}

impl fmt::Display for PositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Head => write!(
                f,
                "it does not begin with `{HEAD}`, so it is no position of this version; give another file"
            ),
            Self::Line(line) => write!(
                f,
                "line {line} is not `SENDER NUMBER GROUP`; mend it, or give another file"
            ),
        }
    }
}

impl std::error::Error for PositionError {}

impl From<io::Error> for PositionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Position {
    /// Number of the last message read of this sender; `None` if none is known.
    #[must_use]
    pub fn get(&self, group: &str, sender: Origin) -> Option<u64> {
        self.groups.get(group)?.get(&sender).copied()
    }

    /// Notes that messages up to this one were read.
    pub fn set(&mut self, group: &str, sender: Origin, number: u64) {
        if let Some(senders) = self.groups.get_mut(group) {
            senders.insert(sender, number);
        } else {
            let senders = BTreeMap::from([(sender, number)]);
            self.groups.insert(group.to_owned(), senders);
        }
    }

    /// Goes back before an item that is not to count as read. Of several, those that came last first.
    pub fn go_back(&mut self, item: &Item) {
        let (group, sender, first) = match item {
            Item::Kept(message) | Item::Message(message) => {
                (message.group(), message.sender(), message.number())
            }
            Item::Missing(missing) => (&*missing.group, missing.sender, missing.first),
            Item::Told(Received::Lost(lost)) => (&*lost.group, lost.sender, lost.first),
            Item::Told(_) | Item::Joined(_) => return,
        };
        self.set(group, sender, first.saturating_sub(1));
    }

    /// Forgets a sender that is gone for good.
    pub fn forget(&mut self, group: &str, sender: Origin) {
        if let Some(senders) = self.groups.get_mut(group) {
            senders.remove(&sender);
        }
    }

    /// Senders of a group, each with the number of the last message read.
    pub fn senders(&self, group: &str) -> impl Iterator<Item = (Origin, u64)> {
        let senders = self.groups.get(group).into_iter().flatten();
        senders.map(|(sender, number)| (*sender, *number))
    }

    /// Reads a file that [`Position::save`] wrote; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no position.
    pub fn load(path: &Path) -> Result<Option<Self>, PositionError> {
        match fs::read_to_string(path) {
            Ok(text) => text.parse().map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a file: beside the former one, to the disk, and then in its place, so that it is whole at any time. Its
    /// neighbour has the same name and `.new` behind it.
    ///
    /// # Errors
    /// It cannot be written; the former one is there then.
    pub fn save(&self, path: &Path) -> Result<(), PositionError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(self.to_string().as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&beside, path)?)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for (group, senders) in &self.groups {
            for (sender, number) in senders {
                writeln!(f, "{sender} {number} {group}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(PositionError::Head);
        }
        let mut position = Self::default();
        for (line, number) in lines.zip(2..) {
            let (sender, read, group) = parse(line).ok_or(PositionError::Line(number))?;
            position.set(group, sender, read);
        }
        Ok(position)
    }
}

fn parse(line: &str) -> Option<(Origin, u64, &str)> {
    let mut words = line.splitn(3, ' ');
    let (node, life) = words.next()?.split_once('.')?;
    let origin = Origin {
        node: NodeId(u64::from_str_radix(node, 16).ok()?),
        incarnation: Incarnation(life.parse().ok()?),
    };
    let number = words.next()?.parse().ok()?;
    let group = words.next().filter(|group| !group.is_empty())?;
    Some((origin, number, group))
}

#[cfg(test)]
mod tests {
    use qsm::{GroupId, Message};

    use super::*;
    use crate::missing::{Missing, MissingCause};

    fn origin(node: u64, life: u32) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(life),
        }
    }

    #[test]
    fn a_position_is_a_text_and_comes_back() {
        let mut position = Position::default();
        position.set("news", origin(0xab12, 7), 12);
        position.set("a group", origin(1, 2), 1);
        position.set("news", origin(0xab12, 7), 13);
        let text = "qsm-position 1\n1.2 1 a group\nab12.7 13 news\n";
        assert_eq!(position.to_string(), text);
        assert_eq!(text.parse::<Position>().unwrap(), position);
        assert_eq!(position.get("news", origin(0xab12, 7)), Some(13));
        assert_eq!(position.get("news", origin(0xab12, 8)), None);
    }

    #[test]
    fn a_position_goes_back_before_what_was_not_read() {
        let message = |group: &str, number| {
            Item::Message(Message::new(
                group,
                GroupId(1),
                origin(3, 1),
                number,
                Vec::new(),
            ))
        };
        let missing = Item::Missing(Missing {
            group: "news".into(),
            sender: origin(3, 1),
            first: 5,
            last: 7,
            cause: MissingCause::Gone,
        });
        let unread = [missing, message("news", 8), message("other", 2)];
        let mut position = Position::default();
        position.set("news", origin(3, 1), 8);
        position.set("other", origin(3, 1), 2);
        for item in unread.iter().rev() {
            position.go_back(item);
        }
        let read = ["news", "other"].map(|group| position.get(group, origin(3, 1)));
        assert_eq!(read, [Some(4), Some(1)]);
    }

    #[test]
    fn what_is_no_position_is_named_by_its_line() {
        let head = "".parse::<Position>().unwrap_err();
        assert!(matches!(head, PositionError::Head), "{head}");
        for wrong in [
            "ab.1 5",
            "ab 5 news",
            "ab.1 x news",
            "ab.1 5 ",
            "zz.1 5 news",
        ] {
            let text = format!("{HEAD}\nab.1 5 news\n{wrong}\n");
            let error = text.parse::<Position>().unwrap_err();
            assert!(error.to_string().starts_with("line 3 is not"), "{error}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("qsm-position-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("news.position");
        assert!(Position::load(&path).unwrap().is_none());
        let mut position = Position::default();
        for number in 1..=2 {
            position.set("news", origin(3, 1), number);
            position.save(&path).unwrap();
            assert_eq!(Position::load(&path).unwrap(), Some(position.clone()));
        }
        let there: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(there.len(), 1, "{there:?}");
        // Its neighbour cannot be written: what was there stays.
        fs::create_dir(folder.join("news.position.new")).unwrap();
        position.set("news", origin(3, 1), 3);
        assert!(position.save(&path).is_err());
        let before = Position::load(&path).unwrap().unwrap();
        assert_eq!(before.get("news", origin(3, 1)), Some(2));
        fs::remove_dir_all(&folder).unwrap();
    }
}
