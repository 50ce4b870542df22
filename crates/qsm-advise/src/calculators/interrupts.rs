use super::checks::{positive, whole};
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{Bytes, Count, Frequency, Seconds};

/// Memory of a receive descriptor.
pub const DESCRIPTOR: Bytes = Bytes(2048.0);

const COALESCING: Source = Source::topics("18.1", "Linux Interrupt Coalescing");
const PARAMETERS: Source = Source::topics("18.2", "Linux \"ethtool\" Command Parameters");
const RING: Source = Source::topics("18.4.1", "Windows and Intel NICs");
const AVOIDING: Source = Source::topics("15.3", "Avoiding Multicast Receiver Loss");

/// Latency that a card adds which interrupts at most so often.
///
/// # Errors
/// A rate is zero.
pub fn coalescing(
    interrupts: Frequency,
    packets: Option<Frequency>,
) -> Result<Advice, AdviceError> {
    positive("the rate of interrupts", interrupts)?;
    let mut advice = Advice::new("latency from interrupt coalescing")
        .equation("latency = 1 / interrupts", COALESCING)
        .given("interrupts", interrupts);
    if let Some(packets) = packets {
        positive("the rate of packets", packets)?;
        advice = advice.given("packets", packets);
    }
    let latency = 1.0 / interrupts.0;
    advice = advice.gives("latency", Seconds(latency));
    if let Some(packets) = packets {
        advice = advice
            .equation(
                "packets for an interrupt = packets / interrupts",
                COALESCING,
            )
            .gives(
                "packets for an interrupt",
                Count((packets.0 / interrupts.0).max(1.0)),
            );
    }
    let micros = (latency * 1e6).floor().max(1.0);
    Ok(advice
        .equation("rx-usecs ≤ latency", PARAMETERS)
        .note(format!(
            "for this limit: ethtool -C INTERFACE adaptive-rx off rx-usecs {micros}"
        ))
        .note("adaptive-rx favours throughput: switch it off for latency")
        .note("never set rx-usecs and rx-frames both to 0: then there are no interrupts at all"))
}

/// Time that a receive ring survives without an interrupt, and its memory.
///
/// # Errors
/// Something is zero, or there are parts of a descriptor.
pub fn ring(
    descriptors: Count,
    packets: Frequency,
    descriptor: Bytes,
) -> Result<Advice, AdviceError> {
    whole("the number of descriptors", descriptors)?;
    positive("the rate of packets", packets)?;
    positive("the memory of a descriptor", descriptor)?;
    Ok(Advice::new("receive ring of a network card")
        .equation("time = descriptors / packets", AVOIDING)
        .equation("memory = descriptors × descriptor", RING)
        .given("descriptors", descriptors)
        .given("packets", packets)
        .given("descriptor", descriptor)
        .gives("time", Seconds(descriptors.0 / packets.0))
        .gives("memory", Bytes(descriptors.0 * descriptor.0))
        .note("as many as the card has, unless memory is scarce: ethtool -g INTERFACE; ethtool -G INTERFACE rx MAXIMUM"))
}
