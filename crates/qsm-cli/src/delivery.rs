//! The value of `qsm sub --delivery`.

use qsm::DeliveryMode;
use qsm_console::options::seconds;

/// Reads a way in which messages are delivered.
///
/// # Errors
/// Another word, or a time that is none.
pub(crate) fn delivery(text: &str) -> Result<DeliveryMode, String> {
    match text.split_once(':') {
        None if text == "ordered" => Ok(DeliveryMode::Ordered),
        None if text == "arrival" => Ok(DeliveryMode::Arrival),
        Some(("within", time)) => {
            let limit = match time.strip_suffix("ms") {
                Some(number) => seconds(number).map(|limit| limit / 1000),
                None => seconds(time),
            };
            Ok(DeliveryMode::Within(limit?))
        }
        _ => {
            Err("expected `ordered`, `arrival`, or `within:TIME` such as `within:50ms`".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ways_are_read_with_their_times() {
        let within = |ms| Ok(DeliveryMode::Within(Duration::from_millis(ms)));
        assert_eq!(delivery("ordered"), Ok(DeliveryMode::Ordered));
        assert_eq!(delivery("arrival"), Ok(DeliveryMode::Arrival));
        assert_eq!(delivery("within:50ms"), within(50));
        assert_eq!(delivery("within:2s"), within(2000));
        assert_eq!(delivery("within:0.25"), within(250));
        assert_eq!(delivery("within:0"), within(0));
        for wrong in [
            "",
            "within",
            "within:",
            "within:soon",
            "arrival:5ms",
            "Ordered",
        ] {
            assert!(delivery(wrong).is_err(), "{wrong}");
        }
    }
}
