//! What must hold, one file per promise.
//!
//! | checker | promise | source |
//! |---|---|---|
//! | [`creation`] | what is delivered was published, with this content | architecture §7 |
//! | [`duplicate`] | nothing is delivered twice | architecture §7, R078 |
//! | [`duplicate`] | nothing is delivered that the application does not want | R-MEM-9, R-VIEW-16 |
//! | [`order`] | per sender and group in order, over view changes, and no silent gap | architecture §7, R201 |
//! | [`loss`] | nothing is lost unless its sender died; what is reported lost is not delivered | R003, R080, R204 |
//! | [`completeness`] | what a live sender published is delivered at all its receivers | R003, R037 |
//! | [`copies`] | nothing is given up while a live cacher has a copy, and its seal where it waits for proof | R083, R201, R-NAK-8, R-SEC-33 |
//! | [`watermarks`] | stable and cached are said only of what members really hold | R091, R093, X06 |
//! | [`memory`] | nobody holds more than its limits | architecture §6 |
//! | [`survivors`] | what one survivor has of a dead sender, the region has or knows it lost | R083, R085 |
//! | [`agreement`] | whoever has a view has the same one | R030, R036 |
//! | [`views`] | in the end everybody sees the same members | R037, R047 |
//! | [`liveness`] | tokens go round while something is not stable | R072, R073 |
//! | [`cutoff`] | packets on their way do not count as missing | R074, R-TOK-5 |
//! | [`pauses`] | who is silent for less than `gone_after` keeps its life | R-MEM-15 |
//! | [`divisions`] | nodes that hints divide never share a region | R-VIEW-18 |
//! | [`addresses`] | no more multicast addresses are in use than there are, and none by two domains | R-MEM-8, R-VIEW-18 |
//! | [`foreign`] | a region to whose address packets of another cluster come moves to another one | R-MEM-20 |
//! | [`plans`] | a message goes once to each region of its group, and merged regions cost no more unwanted deliveries than allowed | R-DATA-3, R-VIEW-16, R020 |
//! | [`deafness`] | multicast that does not arrive is named within three seconds, and no other | R-REACH-1, R-REACH-2 |
//! | [`delays`] | a silent member delays nobody for long | R-VIEW-12 |
//! | [`slowness`] | a member that alone is slow holds senders no longer than twice `slow_after` and 4 s | R-RATE-6 |
//! | [`batching`] | no message waits for others longer than its publisher lets it | R-DATA-4, R-DATA-15, R244 |
//! | [`minimum`] | no receiver holds a sender below the rate that the operator gives | R-RATE-10, R206, R207 |
//! | [`credit`] | no sender is left without credit, whatever packets are lost | R-RATE-4, R-RATE-11 |
//! | [`flush`] | what a sender takes for stable, live receivers have, and it keeps it for the others | R-VIEW-13, R-MEM-14 |
//! | [`retention`] | a sender frees what members that are away lack only when it keeps as much as it may | R-VIEW-13 |
//! | [`prompt`] | who wants messages in another way than in order gets each once, in time, or is told | R-DATA-12, R200, R201 |
//! | [`expiry`] | nothing expires early, and nothing is repaired when all of it has expired | R-DATA-14 |
//! | [`repairs`] | no node sends more again in 10 ms than the operator allows | R209, R-NAK-16 |
//! | [`planes`] | the fast plane repairs most | R084, R-NAK-9 |
//! | [`rate`] | no stream is faster than the operator allows | R113 |
//! | [`sending`] | a node sends nothing new beyond the limit of all that it sends | G19, R-RATE-13 |
//! | [`insider`] | a member that lies does no more to others than is said of it | R-SEC-40 to R-SEC-44 |
//! | [`tagged`] | a datagram whose tag does not fit changes no state | R-SEC-1 |
//! | [`traffic`] | repairs, requests and tokens stay in proportion to losses, rounds and time | R073, R074, R209-R211 |
//!
//! The machines' own invariants are checked after every input, endless loops by the engine, and that everything comes to rest by the run's second phase.

pub(crate) mod addresses;
pub(crate) mod agreement;
pub(crate) mod batching;
pub(crate) mod completeness;
pub(crate) mod copies;
pub(crate) mod creation;
pub(crate) mod credit;
pub(crate) mod cutoff;
pub(crate) mod deafness;
pub(crate) mod delays;
pub(crate) mod divisions;
pub(crate) mod duplicate;
pub(crate) mod expiry;
pub(crate) mod flush;
pub(crate) mod foreign;
pub(crate) mod history;
pub(crate) mod insider;
mod kept;
pub(crate) mod liveness;
pub(crate) mod loss;
pub(crate) mod lost;
pub(crate) mod memory;
pub(crate) mod minimum;
pub(crate) mod order;
pub(crate) mod pauses;
pub(crate) mod planes;
pub(crate) mod plans;
pub(crate) mod prompt;
pub(crate) mod rate;
pub(crate) mod repairs;
pub(crate) mod retention;
pub(crate) mod sending;
pub(crate) mod sendings;
pub(crate) mod slowness;
pub(crate) mod survivors;
pub(crate) mod tagged;
pub(crate) mod traffic;
pub(crate) mod unserved;
pub(crate) mod views;
pub(crate) mod watermarks;

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::region::Region;
use qsm_proto::{Instant, Promptness};
use qsm_wire::{Origin, ViewNumber};

use self::agreement::Agreement;
use self::batching::Waits;
use self::copies::Copies;
use self::cutoff::Cutoff;
use self::deafness::Deafness;
use self::delays::Delays;
use self::divisions::Divisions;
use self::expiry::Expiry;
use self::flush::Flush;
use self::foreign::Foreign;
use self::history::History;
use self::insider::Honesty;
use self::liveness::Liveness;
use self::lost::LostNumbers;
use self::minimum::Minimum;
use self::plans::Plans;
use self::prompt::Prompt;
use self::rate::Rate;
use self::repairs::Repairs;
use self::sending::Sending;
use self::sendings::Sendings;
use self::slowness::Slowness;
use self::watermarks::Watermarks;
use crate::content::Sizes;
use crate::violation::Violation;

/// A delivery with its group as the workload numbers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) receiver: Origin,
    pub(crate) group: usize,
    pub(crate) sender: Origin,
    pub(crate) number: u64,
    pub(crate) bytes: &'a [u8],
}

/// All checkers that look at every delivery, and what they know.
#[derive(Debug)]
pub(crate) struct Checkers {
    pub(crate) history: History,
    pub(crate) agreement: Agreement,
    pub(crate) batching: Waits,
    pub(crate) sending: Sending,
    pub(crate) copies: Copies,
    pub(crate) cutoff: Cutoff,
    pub(crate) deafness: Deafness,
    pub(crate) delays: Delays,
    pub(crate) divisions: Divisions,
    pub(crate) expiry: Expiry,
    pub(crate) flush: Flush,
    pub(crate) foreign: Foreign,
    pub(crate) liveness: Liveness,
    pub(crate) minimum: Minimum,
    pub(crate) plans: Plans,
    pub(crate) prompt: Prompt,
    pub(crate) rate: Rate,
    pub(crate) repairs: Repairs,
    pub(crate) sendings: Sendings,
    pub(crate) slowness: Slowness,
    pub(crate) watermarks: Watermarks,
    pub(crate) sizes: Sizes,
    /// Off from the first forged packet on: without authentication nothing can hold then but
    /// that nobody crashes and nothing grows.
    pub(crate) armed: bool,
    /// Where a member lies, in the place of all others that look at nodes.
    pub(crate) honesty: Option<Honesty>,
    pub(crate) deliveries: u64,
}

impl Checkers {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self {
            history: History::default(),
            agreement: Agreement::default(),
            batching: Waits::default(),
            sending: Sending::default(),
            copies: Copies::default(),
            cutoff: Cutoff::default(),
            deafness: Deafness::default(),
            delays: Delays::default(),
            divisions: Divisions::default(),
            expiry: Expiry::default(),
            flush: Flush::default(),
            foreign: Foreign::default(),
            liveness: Liveness::default(),
            minimum: Minimum::default(),
            plans: Plans::default(),
            prompt: Prompt::default(),
            rate: Rate::default(),
            repairs: Repairs::default(),
            sendings: Sendings::default(),
            slowness: Slowness::default(),
            watermarks: Watermarks::default(),
            sizes,
            armed: true,
            honesty: None,
            deliveries: 0,
        }
    }

    /// Tells whether what nodes deliver is judged.
    pub(crate) fn judges(&self) -> bool {
        self.armed || self.honesty.is_some()
    }

    /// The same, as the fault of a member that lies, if one does.
    pub(crate) fn named(&self, judged: Result<(), Violation>) -> Result<(), Violation> {
        match self.honesty {
            None => judged,
            Some(_) => judged.map_err(insider::named),
        }
    }

    /// Tells whether that life is of a member that lies.
    pub(crate) fn is_of_liar(&self, origin: Origin) -> bool {
        let honesty = self.honesty.as_ref();
        honesty.is_some_and(|honesty| honesty.is_of_liar(&self.history, origin))
    }

    /// Tells whether a member that lies runs there.
    pub(crate) fn is_liar(&self, host: usize) -> bool {
        let honesty = self.honesty.as_ref();
        honesty.is_some_and(|honesty| honesty.is_liar(host))
    }

    /// A correct node delivers a message of a correct sender.
    fn delivered_beside_liar(&self, arrival: &Arrival<'_>) -> Result<(), Violation> {
        let judged = creation::check(&self.history, self.sizes, arrival)
            .and_then(|()| duplicate::check(&self.history, arrival))
            .and_then(|()| order::check(&self.history, arrival))
            .and_then(|()| loss::check_delivery(&self.history, arrival));
        judged.map_err(insider::named)
    }

    /// At the very end, when the liar is out.
    fn finish_beside_liar(&self) -> Result<(), Violation> {
        loss::check_end(&self.history).map_err(insider::named)?;
        match completeness::first_missing(&self.history) {
            Some(missing) => Err(Violation::new("insider", missing.to_string())),
            None => Ok(()),
        }
    }

    pub(crate) fn delivered(&mut self, arrival: Arrival<'_>) -> Result<(), Violation> {
        self.deliveries += 1;
        match (self.armed, &self.honesty) {
            (true, _) => {
                creation::check(&self.history, self.sizes, &arrival)?;
                duplicate::check(&self.history, &arrival)?;
                duplicate::check_wanted(&self.history, &arrival)?;
                order::check(&self.history, &arrival)?;
                loss::check_delivery(&self.history, &arrival)?;
            }
            (false, Some(_)) => self.delivered_beside_liar(&arrival)?,
            (false, None) => return Ok(()),
        }
        self.history.deliver(
            arrival.receiver,
            arrival.group,
            arrival.sender,
            arrival.number,
        );
        Ok(())
    }

    /// A message is handed out in another way than in order.
    pub(crate) fn handed_out(
        &mut self,
        now: Instant,
        mode: Promptness,
        arrival: &Arrival<'_>,
    ) -> Result<(), Violation> {
        creation::check(&self.history, self.sizes, arrival)?;
        duplicate::check_wanted(&self.history, arrival)?;
        let way = (arrival.receiver, arrival.group, arrival.sender);
        self.prompt.give(now, mode, way, arrival.number)
    }

    /// Messages are told as lost in another way than in order.
    pub(crate) fn overdue(&mut self, mode: Promptness, lost: LostNumbers) -> Result<(), Violation> {
        let published = self.history.published(lost.sender, lost.group);
        self.prompt.lose(mode, lost, published)
    }

    pub(crate) fn lost(
        &mut self,
        receiver: Origin,
        group: usize,
        sender: Origin,
        first: u64,
        last: u64,
    ) -> Result<(), Violation> {
        if !self.judges() {
            return Ok(());
        }
        let report = loss::check_report(&self.history, receiver, group, sender, first, last);
        self.named(report)?;
        self.history.lose(receiver, group, sender, first, last);
        Ok(())
    }

    /// Messages of a group with this lifetime are told as expired.
    pub(crate) fn expired(
        &mut self,
        now: Instant,
        lifetime: Option<Duration>,
        lost: LostNumbers,
    ) -> Result<(), Violation> {
        if !self.armed && lifetime.is_some() {
            return Ok(());
        }
        let LostNumbers {
            receiver,
            group,
            sender,
            first,
            last,
        } = lost;
        if !self.armed {
            // What has no lifetime has been lost.
            return self.lost(receiver, group, sender, first, last);
        }
        self.expiry.check_loss(now, &self.history, lifetime, lost)?;
        self.lost(receiver, group, sender, first, last)?;
        self.history.expire(lost);
        Ok(())
    }

    /// A member has the next view of a region. If it was the only live one in the view before, it
    /// has had its rounds with itself, and nobody has seen what came of them.
    pub(crate) fn follow(&mut self, member: &Region) {
        let view = member.view().number();
        let before = member.history().nearest(ViewNumber(view.0 - 1));
        if before.live_members().len() > 1 {
            return;
        }
        let received = member.streams().map(|stream| stream.id().origin);
        let own = member.own_stream().map(|own| own.id().origin);
        let senders: Vec<Origin> = received.chain(own).collect();
        self.cutoff.follow(member, &senders);
    }

    /// After all outputs of one input have been seen.
    pub(crate) fn step_done(&mut self) -> Result<(), Violation> {
        let gaps = self.history.take_gaps();
        self.named(order::check_gaps(&self.history, &gaps))
    }

    /// At the very end.
    pub(crate) fn finish(
        &self,
        modes: &BTreeMap<usize, Vec<Promptness>>,
    ) -> Result<survivors::Survivors, Violation> {
        if self.honesty.is_some() {
            self.finish_beside_liar()?;
        }
        if !self.armed {
            return Ok(survivors::Survivors::default());
        }
        loss::check_end(&self.history)?;
        if let Some(missing) = completeness::first_missing(&self.history) {
            return Err(Violation::new("completeness", missing.to_string()));
        }
        self.prompt.check_end(&self.history, modes)?;
        survivors::check(&self.history)
    }
}
