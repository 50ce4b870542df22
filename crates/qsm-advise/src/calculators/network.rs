use super::checks::{positive, share, whole};
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{BitRate, Bytes, Count, Metres, Seconds, Share};

/// Speed of signals in copper and fibre, as a share of that of light in a vacuum.
pub const MEDIUM: Share = Share(0.6);

/// Speed of light in a vacuum, in metres per second.
const LIGHT: f64 = 299_792_458.0;

const SERIALIZATION: Source = Source::topics("17.10", "Serialization");
const SPEED: Source = Source::topics("17.11", "Speed of Light");
const QUEUING: Source = Source::topics("17.8", "Network Queuing");
const BUDGET: Source = Source::topics("16", "Messaging Latency Budget");

/// Time to put a packet on the wire, bit after bit.
///
/// # Errors
/// Packet, rate or number of hops are zero.
pub fn serialization(packet: Bytes, rate: BitRate, hops: Count) -> Result<Advice, AdviceError> {
    positive("the packet", packet)?;
    positive("the rate", rate)?;
    whole("the number of hops", hops)?;
    let once = packet.0 / rate.bytes();
    Ok(Advice::new("serialization delay")
        .equation("delay = packet / rate", SERIALIZATION)
        .equation("all hops = delay × hops", QUEUING)
        .given("packet", packet)
        .given("rate", rate)
        .given("hops", hops)
        .gives("delay", Seconds(once))
        .gives("all hops", Seconds(once * hops.0))
        .note("each switch that stores a packet before it forwards it is a hop more; cut-through ones are not"))
}

/// Time that a signal takes for a distance.
///
/// # Errors
/// The distance is zero, or the speed is not a share.
pub fn propagation(distance: Metres, speed: Share) -> Result<Advice, AdviceError> {
    positive("the distance", distance)?;
    positive("the speed", speed)?;
    share("the speed", speed)?;
    let way = distance.0 / (LIGHT * speed.0);
    Ok(Advice::new("propagation delay")
        .equation("delay = distance / (speed × 299,792 km/s)", SPEED)
        .given("distance", distance)
        .given("speed", speed)
        .gives("delay", Seconds(way))
        .gives("round trip", Seconds(2.0 * way))
        .note("cables are longer than the straight line; a repair costs a round trip at least"))
}

/// Time that a packet waits behind others in a queue.
///
/// # Errors
/// Queue or rate are zero.
pub fn queue(queued: Bytes, rate: BitRate) -> Result<Advice, AdviceError> {
    positive("the queue", queued)?;
    positive("the rate", rate)?;
    Ok(Advice::new("wait in a queue")
        .equation("wait = queued / rate", BUDGET)
        .given("queued", queued)
        .given("rate", rate)
        .gives("wait", Seconds(queued.0 / rate.bytes()))
        .note("a queue of N full packets is N × 1500 bytes; switches for networks have dozens for each port"))
}
