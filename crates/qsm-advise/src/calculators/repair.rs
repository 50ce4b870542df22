use super::checks::{positive, share};
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{BitRate, Count, Seconds, Share};

const RETRANSMISSIONS: Source = Source::topics("17.3", "Retransmissions");
const REORDERING: Source = Source::topics("17.4", "Reordering");
const CONTROL: Source = Source::topics("15.2", "Multicast Retransmission Control Techniques");
const TCP: Source = Source::topics("2.2", "TCP Receiver-Side Latency");

/// Latency of a message whose packet is lost once.
///
/// # Errors
/// The round trip is zero.
pub fn repair(
    detection: Seconds,
    round_trip: Seconds,
    give_up: Option<Seconds>,
) -> Result<Advice, AdviceError> {
    positive("the round trip", round_trip)?;
    let retransmission = detection.0 + round_trip.0;
    let mut advice = Advice::new("latency of a repair")
        .equation("retransmission = detection + round trip", RETRANSMISSIONS)
        .given("detection", detection)
        .given("round trip", round_trip);
    if let Some(give_up) = give_up {
        positive("the time to give up after", give_up)?;
        advice = advice
            .given("give up", give_up)
            .equation("reordering = min(retransmission, give up)", REORDERING)
            .gives("retransmission", Seconds(retransmission))
            .gives("reordering", Seconds(retransmission.min(give_up.0)));
        if give_up.0 < retransmission {
            advice =
                advice.note("nothing is ever repaired in time: give up later than a repair takes");
        }
        return Ok(advice);
    }
    Ok(advice
        .gives("retransmission", Seconds(retransmission))
        .note("a request or a repair that is lost itself adds as much again"))
}

/// Bandwidth that repairs take, and whether it keeps within a limit.
///
/// # Errors
/// The rate is zero, or a share is more than all.
pub fn repair_rate(
    rate: BitRate,
    loss: Share,
    receivers: Count,
    limit: Share,
) -> Result<Advice, AdviceError> {
    positive("the rate", rate)?;
    positive("the number of receivers", receivers)?;
    share("the loss", loss)?;
    share("the limit", limit)?;
    if loss.0 >= 1.0 {
        return Err(AdviceError::new(
            "everything is lost, and so is every repair",
            "give a loss below 100%",
        ));
    }
    // Repairs are lost as data is: a packet is sent 1 / (1 - loss) times to each receiver.
    let again = loss.0 / (1.0 - loss.0);
    let repairs = rate.0 * again * receivers.0;
    let allowed = rate.0 * limit.0;
    let advice = Advice::new("bandwidth for repairs by unicast")
        .equation("repairs = rate × loss / (1 - loss) × receivers", CONTROL)
        .equation("allowed = rate × limit", CONTROL)
        .given("rate", rate)
        .given("loss", loss)
        .given("receivers", receivers)
        .given("limit", limit)
        .gives("repairs", BitRate(repairs))
        .gives("allowed", BitRate(allowed))
        .note("loss is that of each receiver by itself; loss that all share is repaired by one packet to all");
    Ok(match repairs > allowed {
        true => advice.note(
            "repairs do not fit the limit: receivers fall behind; find the cause of the loss, or lower the rate",
        ),
        false => advice.note("repairs fit the limit"),
    })
}

/// Share of the packets that TCP holds back to restore their order.
///
/// # Errors
/// No packets were received, or fewer than came out of order.
pub fn tcp_order(received: Count, out_of_order: Count) -> Result<Advice, AdviceError> {
    positive("the number of packets received", received)?;
    if out_of_order > received {
        return Err(AdviceError::new(
            format!("{out_of_order} packets came out of order, of {received} received"),
            "take both numbers from the same output of `netstat -s` or `nstat -az`",
        ));
    }
    Ok(Advice::new("packets that TCP holds back")
        .equation("held back = out of order / received", TCP)
        .given("received", received)
        .given("out of order", out_of_order)
        .gives("held back", Share(out_of_order.0 / received.0))
        .note("on Linux: nstat -az TcpInSegs TcpExtTCPOFOQueue"))
}
