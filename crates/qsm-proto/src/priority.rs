use qsm_wire::{Hop, Kind};

/// The order in which a node handles datagrams that have arrived together, most urgent first.
///
/// A token that waits behind a hundred repairs delays its round by what they cost, and with it the
/// sender's window, which makes losses and repairs more. Requests come after tokens, because
/// answering one may copy hundreds of packets. ACKs that have come do not let membership
/// overtake them: a view without a member that has said goodbye is handled after the ACK of what
/// it had. Rule R-TOK-11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Tokens, their receipts, calls, summaries, ACKs, heartbeats, queries, and all of membership.
    Token,
    /// NAKs and pulls.
    Request,
    /// Data that is not from its sender, or not for the first time; and parities.
    Repair,
    /// Data; and Absent, since what has come before it may be what it says is gone.
    Data,
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Priority of a datagram that nobody has checked yet; what cannot be a datagram of ours waits
    /// longest.
    #[inline]
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        match Kind::peek(datagram) {
            Some(Kind::Data) => match Hop::peek(datagram) {
                Some(Hop::Direct | Hop::Copy) | None => Self::Data,
                Some(_) => Self::Repair,
            },
            Some(Kind::Nak | Kind::Pull) => Self::Request,
            Some(Kind::Parity) => Self::Repair,
            Some(Kind::Absent) | None => Self::Data,
            Some(_) => Self::Token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, hop: Hop) -> Priority {
        Priority::of(&[1, kind as u8, 0, hop as u8])
    }

    // Rule R-TOK-11.
    #[test]
    fn tokens_come_before_requests_and_repairs_before_data() {
        let of_kind = |kind: &Kind| of(*kind, Hop::Direct);
        let wanted = [Kind::Token, Kind::Nak, Kind::Data];
        assert!(wanted.iter().map(of_kind).is_sorted());
        for hop in [
            Hop::SenderRepair,
            Hop::CacherRepair,
            Hop::Push,
            Hop::PullRepair,
        ] {
            assert_eq!(of(Kind::Data, hop), Priority::Repair);
        }
        assert_eq!(of_kind(&Kind::Parity), Priority::Repair);
        let urgent = Kind::ALL
            .iter()
            .filter(|kind| of_kind(kind) == Priority::Token);
        assert_eq!(urgent.count(), Kind::ALL.len() - 5);
    }

    // Rules R-TOK-11, R-MEM-14.
    #[test]
    fn the_end_of_a_member_does_not_overtake_the_ack_of_what_it_had() {
        let of_kind = |kind: Kind| of(kind, Hop::Direct);
        assert_eq!(of_kind(Kind::Ack), of_kind(Kind::Session));
    }

    #[test]
    fn what_is_no_datagram_of_ours_overtakes_nothing() {
        for bytes in [&[][..], &[1], &[1, 99, 0, 0]] {
            assert_eq!(Priority::of(bytes), Priority::Data);
        }
    }
}
