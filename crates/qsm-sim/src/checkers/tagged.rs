use crate::violation::Violation;

/// A datagram whose tag did not fit changes nothing of a machine: state, counters, timeout (R-SEC-1).
pub(crate) fn check(host: usize, before: &str, after: &str) -> Result<(), Violation> {
    if before == after {
        return Ok(());
    }
    let same = before.bytes().zip(after.bytes());
    let same = same.take_while(|(one, other)| one == other).count();
    let rest = |text: &str| text.chars().skip(same).take(60).collect::<String>();
    let message = format!(
        "host {host}: a datagram whose tag does not fit has changed {:?} to {:?}",
        rest(before),
        rest(after)
    );
    Err(Violation::new("tagged", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen() {
        assert!(check(1, "rounds 3", "rounds 3").is_ok());
        assert!(check(1, "rounds 3", "rounds 4").is_err());
    }
}
