//! Lines of a replica's process.

/// An event at a process, as its line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Its node is admitted.
    Admitted,
    /// The replica is live.
    Live {
        /// It has begun the history.
        founded: bool,
    },
    /// It binds anew, for this cause.
    Rebinds(String),
    /// The sequencer of this term is known.
    Sequencer {
        /// Its term.
        term: u64,
        /// It is this one.
        own: bool,
    },
    /// It is one of so many that vote; 0: it does not.
    Votes(u64),
    /// It gives a snapshot.
    Donates,
    /// It has got a snapshot of so many bytes.
    Arrived(u64),
    /// Hash of a state, at a round number of updates.
    Mark {
        /// Updates that it has.
        state: State,
        /// Longest time between two of them since the last mark, microseconds.
        gap: u64,
    },
    /// Hash of a state, when asked for.
    Hash(State),
    /// So many updates were published.
    Sent(u64),
    /// It has failed.
    Failed(String),
    /// The process has ended.
    Ended,
}

/// A state in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Updates that it is made of.
    pub count: u64,
    /// Hash of all of it.
    pub hash: u64,
}

/// The event of a line and its time, microseconds.
#[must_use]
pub fn parse(line: &str) -> Option<(u64, Told)> {
    let mut words = line.splitn(3, ' ');
    let (event, at, rest) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let mut numbers = rest.split(' ').map(str::parse::<u64>);
    let mut number = || numbers.next()?.ok();
    let told = match event {
        "admitted" => Told::Admitted,
        "live" => Told::Live {
            founded: rest == "true",
        },
        "rebinds" => Told::Rebinds(rest.to_owned()),
        "sequencer" => Told::Sequencer {
            term: number()?,
            own: rest.ends_with("true"),
        },
        "votes" => match rest.strip_prefix("true ") {
            Some(voters) => Told::Votes(voters.parse().ok()?),
            None => Told::Votes(0),
        },
        "donates" => Told::Donates,
        "arrived" => Told::Arrived(number()?),
        "mark" => Told::Mark {
            state: State {
                count: number()?,
                hash: number()?,
            },
            gap: number()?,
        },
        "hash" => Told::Hash(State {
            count: number()?,
            hash: number()?,
        }),
        "sent" => Told::Sent(number()?),
        "failed" => Told::Failed(rest.to_owned()),
        _ => return None,
    };
    Some((at, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let state = State { count: 5, hash: 7 };
        let lines = [
            ("admitted 3 ", Told::Admitted),
            ("votes 3 true 4", Told::Votes(4)),
            ("votes 3 false 4", Told::Votes(0)),
            ("live 3 true", Told::Live { founded: true }),
            ("mark 3 5 7 90", Told::Mark { state, gap: 90 }),
            ("hash 3 5 7", Told::Hash(state)),
            (
                "sequencer 3 2 false",
                Told::Sequencer {
                    term: 2,
                    own: false,
                },
            ),
            (
                "rebinds 3 messages are lost",
                Told::Rebinds(String::from("messages are lost")),
            ),
        ];
        for (line, told) in lines {
            assert_eq!(parse(line), Some((3, told)), "{line}");
        }
        assert_eq!(parse("mark 3 5"), None);
        assert_eq!(parse("other 3 5"), None);
    }
}
