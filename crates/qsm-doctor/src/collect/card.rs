//! What `ethtool` tells of a card. Its text is read, since many versions have no other form.

use super::tool;
use crate::facts::{Card, Ring};

pub(crate) fn read(interface: &str) -> Card {
    let ask = |option: &str| tool::output("ethtool", &[option, interface]);
    let coalescing = ask("-c").unwrap_or_default();
    Card {
        gro: ask("-k").and_then(|text| switch(&text, "generic-receive-offload")),
        ring: ask("-g").and_then(|text| ring(&text)),
        missed: None,
        adaptive_rx: switch(&coalescing, "Adaptive RX"),
        rx_usecs: value(&coalescing, "rx-usecs").and_then(|text| text.parse().ok()),
        pause: ask("-a").and_then(|text| pause(&text)),
    }
}

/// What follows the name, up to a blank.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()
}

fn switch(text: &str, name: &str) -> Option<bool> {
    match value(text, name)? {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn ring(text: &str) -> Option<Ring> {
    let (most, now) = text.split_once("Current hardware settings")?;
    let rx = |text| value(text, "RX")?.parse().ok();
    let (max, now) = (rx(most)?, rx(now)?);
    (max > 0).then_some(Ring { now, max })
}

fn pause(text: &str) -> Option<bool> {
    let (rx, tx) = (switch(text, "RX")?, switch(text, "TX")?);
    Some(rx || tx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ethtool_writes_is_understood() {
        let text = "Coalesce parameters for eth0:\nAdaptive RX: off  TX: on\n\
                    stats-block-usecs:\tn/a\n\nrx-usecs:\t3\nrx-frames:\tn/a\nrx-usecs-irq:\t9\n";
        assert_eq!(switch(text, "Adaptive RX"), Some(false));
        assert_eq!(value(text, "rx-usecs"), Some("3"));
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n\
                    Current hardware settings:\nRX:\t\t256\nRX Mini:\tn/a\nTX:\t\t256\n";
        assert_eq!(
            ring(text),
            Some(Ring {
                now: 256,
                max: 4096
            })
        );
        let text = "Pause parameters for eth0:\nAutonegotiate:\ton\nRX:\t\toff\nTX:\t\ton\n";
        assert_eq!(pause(text), Some(true));
        assert_eq!(pause("Pause parameters\nRX: n/a\nTX: n/a\n"), None);
        let text =
            "Features for eth0:\nrx-checksumming: on\ngeneric-receive-offload: off [fixed]\n";
        assert_eq!(switch(text, "generic-receive-offload"), Some(false));
    }
}
