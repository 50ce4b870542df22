use super::checks::positive;
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{Bytes, Count, Frequency, Seconds, Share};

/// Room for messages in a packet of an Ethernet of 1500 bytes.
pub const PACKET: Bytes = Bytes(1400.0);
/// Headers of a packet on the wire: Ethernet with its gap, IP, UDP and Quicksilver.
pub const HEADERS: Bytes = Bytes(110.0);

const BATCHING: Source = Source::topics("17.5", "Batching");

/// What waiting for more messages costs in latency, and saves in packets.
///
/// # Errors
/// Message, rate, packet or headers are zero, or a message is larger than a packet.
pub fn batching(
    message: Bytes,
    messages: Frequency,
    wait: Seconds,
    packet: Bytes,
    headers: Bytes,
) -> Result<Advice, AdviceError> {
    positive("the message", message)?;
    positive("the rate of messages", messages)?;
    positive("the packet", packet)?;
    positive("the headers", headers)?;
    if message > packet {
        return Err(AdviceError::new(
            format!("a message of {message} fills a packet of {packet} alone"),
            "batching is for messages smaller than packets; give a smaller --message",
        ));
    }
    let room = (packet.0 / message.0).floor();
    let batch = (1.0 + messages.0 * wait.0).floor().min(room);
    // The first message of a batch waits for the last one, if that comes in time.
    let full = (room - 1.0) / messages.0;
    let added = wait.0.min(full);
    let payload = batch * message.0;
    Ok(Advice::new("batching of messages into packets")
        .equation("batch = min(packet / message, 1 + messages × wait)", BATCHING)
        .equation("latency = min(wait, (packet / message - 1) / messages)", BATCHING)
        .equation("overhead = headers / (headers + batch × message)", BATCHING)
        .given("message", message)
        .given("messages", messages)
        .given("wait", wait)
        .given("packet", packet)
        .given("headers", headers)
        .gives("batch", Count(batch))
        .gives("latency", Seconds(added))
        .gives("packets", Frequency(messages.0 / batch))
        .gives("overhead", Share(headers.0 / (headers.0 + payload)))
        .note("Quicksilver waits for nothing: messages share a packet when they are there before it leaves")
        .note("messages are taken as evenly spaced; bursts fill packets sooner"))
}
