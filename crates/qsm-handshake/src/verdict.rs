//! The server's last word.

use crate::admission::{REASON_BYTES_MAX, Refused};

const WELCOME: u8 = 1;
const REFUSED: u8 = 2;

pub(crate) fn encode(verdict: Result<(), &Refused>) -> Vec<u8> {
    match verdict {
        Ok(()) => vec![WELCOME],
        Err(refused) => {
            let mut end = refused.reason.len().min(REASON_BYTES_MAX);
            while !refused.reason.is_char_boundary(end) {
                end -= 1;
            }
            [&[REFUSED], &refused.reason.as_bytes()[..end]].concat()
        }
    }
}

/// `None` for what is no verdict.
pub(crate) fn decode(bytes: &[u8]) -> Option<Result<(), Refused>> {
    match bytes {
        [WELCOME] => Some(Ok(())),
        [REFUSED, reason @ ..] if reason.len() <= REASON_BYTES_MAX => {
            Some(Err(Refused::new(core::str::from_utf8(reason).ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_back_and_long_reasons_cut_between_letters() {
        assert_eq!(decode(&encode(Ok(()))), Some(Ok(())));
        let refused = Refused::new("expired");
        assert_eq!(decode(&encode(Err(&refused))), Some(Err(refused)));
        let long = Refused::new("é".repeat(150) + "x");
        assert_eq!(
            decode(&encode(Err(&long))),
            Some(Err(Refused::new("é".repeat(100))))
        );
        for bytes in [&[][..], &[0], &[1, 0], &[2, 0xff], &[3]] {
            assert_eq!(decode(bytes), None);
        }
    }
}
