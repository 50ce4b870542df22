//! Messages of other sites that have not come, as the numbers that they have there show.

use qsm::{DeliveryMode, Message, Received, RelayedNumbers, RelayedOrder};
use qsm_console::log::Note;
use qsm_console::table::printable;

/// Numbers of relayed messages.
#[derive(Debug)]
pub(crate) struct Origins {
    /// None where messages do not come in order, or not all.
    numbers: Option<RelayedNumbers>,
    /// Messages missing.
    pub(crate) missing: u64,
}

impl Origins {
    /// Of a reader that gets messages so, and all or only the newest of a key.
    pub(crate) fn new(delivery: DeliveryMode, gets_all: bool) -> Self {
        let in_order = gets_all && delivery != DeliveryMode::Arrival;
        Self {
            numbers: in_order.then(RelayedNumbers::default),
            missing: 0,
        }
    }

    /// Says what is missing before a message.
    pub(crate) fn check(&mut self, message: &Message) {
        let Some(numbers) = &mut self.numbers else {
            return;
        };
        let order = message.relayed_order(numbers);
        let (Some(RelayedOrder::After { first, last }), Some(origin)) = (order, message.relayed())
        else {
            return;
        };
        let messages = last - first + 1;
        self.missing += messages;
        let (group, site) = (printable(message.group()), printable(origin.site));
        let sender = format!("{} ({})", printable(origin.name), origin.sender);
        let line =
            format!("LOST: group {group} site {site} sender {sender} messages {first}..={last}");
        Note::warn("lost", &line)
            .group(&group)
            .sender(&sender)
            .messages(messages)
            .say();
    }

    /// Takes note of a loss that is told already: of which numbers is not known.
    pub(crate) fn interrupt(&mut self, told: &Received) {
        if !matches!(told, Received::Back(_))
            && let Some(numbers) = &mut self.numbers
        {
            numbers.forget();
        }
    }
}
