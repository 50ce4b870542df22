use super::checks::{positive, whole};
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{BitRate, Bytes, Count, Seconds};

/// Bytes of a receive buffer for each byte of data: Linux counts the memory that packets occupy.
pub const OVERHEAD: Count = Count(2.0);

const SIZE: Source = Source::topics("8.6", "UDP Buffer Size Equations: Buffer Size");
const LATENCY: Source = Source::topics("8.5", "UDP Buffer Size Equations: Latency");
const LARGE: Source = Source::topics("8.4", "UDP Buffer Space Too Large: Consequences");
const LOSS: Source = Source::topics("8.3", "UDP Loss: Consequences");
const TUNING: Source = Source::book("Tuning a host");
const PAUSES: Source = Source::book("Pauses");

/// Receive buffer with which a receiver survives a pause at this rate without loss.
///
/// # Errors
/// Rate or pause are zero, or the overhead is less than one.
pub fn buffer(rate: BitRate, pause: Seconds, overhead: Count) -> Result<Advice, AdviceError> {
    positive("the rate", rate)?;
    positive("the pause", pause)?;
    sensible(overhead)?;
    let data = rate.bytes() * pause.0;
    let setting = (data * overhead.0).ceil();
    Ok(Advice::new("receive buffer of a socket")
        .equation("data = pause × rate", SIZE)
        .equation("buffer = data × overhead", TUNING)
        .given("rate", rate)
        .given("pause", pause)
        .given("overhead", overhead)
        .gives("buffer", Bytes(setting))
        .gives("data", Bytes(data))
        .note(format!("set the limit: sysctl -w net.core.rmem_max={setting}"))
        .note(format!("ask for it: --receive-buffer {setting}"))
        .note(
            "much more than needed is harmful too: after a pause everything in the buffer is read first",
        ))
}

/// Longest time that data waits in a buffer that is full.
///
/// # Errors
/// Buffer or rate are zero, or the overhead is less than one.
pub fn delay(buffer: Bytes, rate: BitRate, overhead: Count) -> Result<Advice, AdviceError> {
    positive("the buffer", buffer)?;
    positive("the rate", rate)?;
    sensible(overhead)?;
    let data = buffer.0 / overhead.0;
    Ok(Advice::new("longest time in a receive buffer")
        .equation("latency = data / rate", LATENCY)
        .equation("data = buffer / overhead", TUNING)
        .given("buffer", buffer)
        .given("rate", rate)
        .given("overhead", overhead)
        .gives("latency", Seconds(data / rate.bytes()))
        .gives("data", Bytes(data))
        .note("a receiver that stands still for less time loses nothing here"))
}

/// Memory that the receive buffers of a host may take.
///
/// # Errors
/// Something is zero, or there are parts of a process or socket.
pub fn memory(buffer: Bytes, receivers: Count, sockets: Count) -> Result<Advice, AdviceError> {
    positive("the buffer", buffer)?;
    whole("the number of receivers", receivers)?;
    whole("the number of sockets of each", sockets)?;
    Ok(Advice::new("memory of all receive buffers of a host")
        .equation("memory = buffer × receivers × sockets", LARGE)
        .given("buffer", buffer)
        .given("receivers", receivers)
        .given("sockets", sockets)
        .gives("memory", Bytes(buffer.0 * receivers.0 * sockets.0))
        .note("it is taken when buffers fill, which those of one host do together")
        .note("a node has two sockets that receive; one engine (`qsm engine`) serves all programs of a host"))
}

/// Memory with which a sender or cacher keeps what a receiver misses while it is away.
///
/// # Errors
/// Rate or time are zero.
pub fn retention(rate: BitRate, away: Seconds) -> Result<Advice, AdviceError> {
    positive("the rate", rate)?;
    positive("the time", away)?;
    let bytes = (rate.bytes() * away.0).ceil();
    Ok(Advice::new("memory to keep what a receiver misses")
        .equation("retention = rate × away", LOSS)
        .given("rate", rate)
        .given("away", away)
        .gives("retention", Bytes(bytes))
        .note(format!(
            "ask for it at publishers and receivers, which cache: --retention {bytes}"
        ))
        .note(
            "the rate is that of one sender for --retention at the sender, of all at those who cache",
        )
        .equation("gone-after ≥ away", PAUSES))
}

fn sensible(overhead: Count) -> Result<(), AdviceError> {
    match overhead.0 >= 1.0 && overhead.0 <= 100.0 {
        true => Ok(()),
        false => Err(AdviceError::new(
            format!("the overhead is {overhead}"),
            "give the bytes of buffer for each byte of data, from 1 to 100; 2 is usual on Linux",
        )),
    }
}
