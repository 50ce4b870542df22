//! Which messages were in packets that are lost for good, as their sender tells (R-DATA-11).
//!
//! ```text
//!   packets   ... 7 | 8 | lost 9 ..= 20 | 21 | 22 ...
//!                     ^ delivered     ^ the question's position      ^ the answer's position
//! ```
//!
//! Delivery stops before a lost packet until the sender has answered. The answer says from which
//! number on this node is owed messages of each group, so that a message that comes after the lost
//! packets shows what is missing before it; and what the last number is up to the answer's
//! position: when delivery gets there, what has not come is lost. Where nobody can be asked, the
//! application learns of packets only.
//!
//! A question names the view from which on messages are owed. Groups that this node receives since
//! a later view than that in which it joined are asked about anew, by that view.

use core::time::Duration;

use qsm_wire::{
    CHUNK_HEADER_BYTES, GroupId, GroupNumbers, Numbers, NumbersQuery, Origin, ViewNumber,
};

use super::ReceiveStream;
use crate::history::{Duty, History};
use crate::receive::{Cursors, DeliveryContext};
use crate::{Instant, LossCause, Miss};

/// Longest time from one question to the next, unless the first retry of a request is later.
const ASK_AGAIN_MAX: Duration = Duration::from_millis(500);
/// Doublings of that time: more than any first retry needs to get there.
const DOUBLINGS_MAX: u32 = 12;
/// Questions after which the sender counts as gone: half a minute, after which the membership
/// service gives up a silent node, too.
const QUESTIONS_MAX: u32 = 64;
/// Views that are asked about after the one in which this node joined. Groups that it receives since
/// still later ones are not told.
const LATER_VIEWS_MAX: u32 = 16;
/// More messages than fit a packet: they take at least a chunk's header each.
const PACKET_MESSAGES_MAX: u64 = 65_535 / CHUNK_HEADER_BYTES as u64;

/// Packets of a stream that were given up, and what is known of the messages in them. Made with
/// the first one.
#[derive(Debug, Default)]
pub(super) struct LostNumbers {
    /// First and last packet given up of those that delivery has yet to pass.
    given_up: Option<(u64, u64)>,
    /// The sender has told the numbers of packets up to here.
    known_upto: u64,
    /// Groups of which it does not know, or does not know where this node's part begins, until a
    /// message of theirs shows that.
    vague: Vec<GroupId>,
    /// The sender has not answered, and is not asked about packets up to here again.
    silent_upto: u64,
    question: Option<Question>,
    told: Option<ToldNumbers>,
    /// Packets passed that nobody can tell the messages of, and the application has yet to learn of.
    unknown_packets: u64,
    /// Packets that delivery has passed since the messages of those before were named.
    passed: PassedPackets,
}

/// Causes for which packets were given up that delivery has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PassedPackets {
    /// Some had expired.
    expired: bool,
    /// Some are gone.
    gone: bool,
    /// The messages in them have been named, but for one that ends behind them.
    named: bool,
}

/// Messages of a sender to a group that will not come.
#[derive(Debug, Clone, Copy)]
pub(super) struct LostMessages {
    pub(super) group: GroupId,
    pub(super) sender: Origin,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A question to the sender that has not been answered, or not to the end.
#[derive(Debug)]
struct Question {
    /// The last packet that is asked about.
    position: u64,
    /// The first group that has not been told.
    from: GroupId,
    due: Instant,
    attempts: u32,
    /// The view that is asked about, after that in which this node joined.
    later: Option<ViewNumber>,
    /// Such views asked about.
    later_views: u32,
    /// Parts of the answer by this view, and the position of the first one of all.
    parts: Vec<GroupNumbers>,
    position_told: Option<u64>,
    /// The last numbers of groups, as far as they have been told.
    lasts: Vec<(GroupId, u64)>,
    /// See [`LostNumbers::vague`].
    vague: Vec<GroupId>,
}

/// The last numbers of groups up to a position, as the sender says.
#[derive(Debug)]
struct ToldNumbers {
    position: u64,
    lasts: Vec<(GroupId, u64)>,
}

/// Worth of a part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerWorth {
    /// Not what is asked, or not any more.
    Stale,
    /// It says what cannot be.
    Impossible,
    /// There is more to ask.
    Part,
    /// The question is answered.
    Whole,
}

/// Fate of delivery at a lost packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostStep {
    /// It goes on behind it.
    Pass,
    /// It waits.
    Wait,
}

impl LostNumbers {
    /// The sender has been asked, or is to be, about packets from here on; `None`: it is not, or
    /// delivery has come past them.
    fn open_from(&self, delivered: u64) -> Option<u64> {
        let passed = delivered.max(self.known_upto).max(self.silent_upto);
        let (first, last) = self.given_up?;
        (last > passed).then_some(first.max(passed + 1))
    }

    /// The part of an answer from `from` on is not impossible: so many messages fit the packets.
    fn is_possible(numbers: &Numbers<'_>) -> bool {
        let most = numbers.query.position.saturating_mul(PACKET_MESSAGES_MAX);
        let mut groups = numbers.groups();
        groups.all(|group| group.first == 0 || group.last - group.first < most)
    }
}

impl Question {
    fn new(position: u64) -> Self {
        Self {
            position,
            from: GroupId(0),
            due: Instant(0),
            attempts: 0,
            later: None,
            later_views: 0,
            parts: Vec::new(),
            position_told: None,
            lasts: Vec::new(),
            vague: Vec::new(),
        }
    }

    /// The view that is asked about, of a node that joined in that one.
    fn view(&self, joined: ViewNumber) -> ViewNumber {
        self.later.unwrap_or_default().max(joined)
    }

    /// There is more to ask, from this group on.
    fn go_on(&mut self, from: GroupId) {
        self.from = from;
        self.due = Instant(0);
        self.attempts = 0;
    }

    /// Sorts the answer by one view: notes of which groups it says enough, and returns those that
    /// are owed from there on. What begins later is asked about by the next view.
    fn sort(
        &mut self,
        sender: Origin,
        history: &History,
        cursors: &mut Cursors,
    ) -> Vec<GroupNumbers> {
        let view = self.view(history.joined().unwrap_or_default());
        let (first_view, mut next) = (self.later.is_none(), None);
        let mut owed = Vec::new();
        for part in core::mem::take(&mut self.parts) {
            let begins = history.begins(part.group);
            let now = begins == view;
            if first_view || now {
                self.lasts.push((part.group, part.last));
            }
            if !cursors.awaits_first(sender, part.group) || begins < view {
                continue;
            }
            let later = !now && begins <= history.newest().number();
            if later && self.later_views < LATER_VIEWS_MAX {
                next = Some(next.map_or(begins, |next: ViewNumber| next.min(begins)));
            } else if !now || part.first == 0 {
                self.vague.push(part.group);
            } else {
                owed.push(part);
            }
        }
        self.later_views += u32::from(next.is_some());
        self.later = next;
        owed
    }
}

impl ReceiveStream {
    /// Packets that concern this node are given up.
    pub(super) fn note_given_up(&mut self, first: u64, last: u64) {
        let delivered = self.delivered;
        let lost = self.lost_numbers.get_or_insert_default();
        lost.given_up = match (lost.open_from(delivered), lost.given_up) {
            (Some(from), Some((_, upto))) => Some((from.min(first), upto.max(last))),
            _ => Some((first, last)),
        };
    }

    /// Up to where this node says that it has received everything or given it up: what it still
    /// has to ask the sender about is not among that, so the sender stays to be asked.
    pub(super) fn accounted_upto(&self) -> u64 {
        let lost = self.lost_numbers.as_ref().filter(|_| !self.sender.dead);
        let open = lost.and_then(|lost| lost.open_from(self.delivered));
        open.map_or(self.contiguous, |from| self.contiguous.min(from - 1))
    }

    /// Decides whether delivery goes on behind a lost packet. It does where the sender has told
    /// the numbers of its messages, or nobody can. Rule R-DATA-11.
    pub(super) fn pass_lost(
        &mut self,
        sequence: u64,
        history: &History,
        held: bool,
        cursors: &mut Cursors,
    ) -> LostStep {
        match history.duty(self.view_of(sequence, history)) {
            Duty::Pass => {
                self.drop_question(sequence);
                return LostStep::Pass;
            }
            Duty::Wait if !self.sender.dead => return LostStep::Wait,
            Duty::Deliver if held => return LostStep::Wait,
            Duty::Wait | Duty::Deliver => {}
        }
        if self.sender.owes_nothing {
            return LostStep::Pass;
        }
        let (dead, sender) = (self.sender.dead, self.id.origin);
        let lost = self.lost_numbers.get_or_insert_default();
        if sequence <= lost.known_upto {
            lost.vague
                .retain(|group| cursors.awaits_first(sender, *group));
            lost.unknown_packets += u64::from(!lost.vague.is_empty());
        } else if dead || sequence <= lost.silent_upto {
            lost.unknown_packets += 1;
        } else {
            lost.question.get_or_insert_with(|| Question::new(sequence));
            return LostStep::Wait;
        }
        LostStep::Pass
    }

    /// Delivery has passed a packet that was given up.
    pub(super) fn note_passed(&mut self, expired: bool) {
        if let Some(lost) = &mut self.lost_numbers {
            if lost.passed.named {
                lost.passed = PassedPackets::default();
            }
            lost.passed.expired |= expired;
            lost.passed.gone |= !expired;
        }
    }

    /// Why messages are missing that have not been named yet. Where some packets had expired and
    /// others are gone it is not known which of them had these messages.
    pub(super) fn loss_cause(&self) -> LossCause {
        let lost = self.lost_numbers.as_ref();
        match lost.is_some_and(|lost| lost.passed.expired && !lost.passed.gone) {
            true => LossCause::Expired,
            false => LossCause::Gone,
        }
    }

    /// This lost packet is not for this node after all.
    fn drop_question(&mut self, sequence: u64) {
        if let Some(lost) = &mut self.lost_numbers
            && let Some(question) = &lost.question
            && question.position <= sequence
        {
            lost.question = None;
        }
    }

    /// When the sender is to be asked about lost packets; [`Instant::NEVER`]: it is not.
    #[must_use]
    pub fn numbers_due(&self) -> Instant {
        let question = self.lost_numbers.as_ref();
        let question = question.and_then(|lost| lost.question.as_ref());
        question.map_or(Instant::NEVER, |question| question.due)
    }

    /// The question to the sender, if that is due; `retry`: the time until it is due again. A sender
    /// that does not answer is asked so many times.
    pub(crate) fn ask_numbers(
        &mut self,
        now: Instant,
        retry: Duration,
        joined: ViewNumber,
    ) -> Option<NumbersQuery> {
        let lost = self.lost_numbers.as_mut()?;
        let question = lost.question.as_mut()?;
        if question.due > now {
            return None;
        }
        if question.attempts >= QUESTIONS_MAX {
            let last = lost.given_up.map_or(0, |(_, last)| last);
            lost.silent_upto = question.position.max(last);
            lost.question = None;
            self.go_on(now);
            return None;
        }
        let doubled = retry.saturating_mul(1 << question.attempts.min(DOUBLINGS_MAX));
        question.due = now.after(doubled.min(ASK_AGAIN_MAX).max(retry));
        question.attempts += 1;
        Some(NumbersQuery {
            stream: self.id,
            joined: question.view(joined),
            position: question.position,
            from: question.from,
        })
    }

    /// Takes the sender's answer, or a part of it.
    pub(crate) fn take_numbers(
        &mut self,
        numbers: &Numbers<'_>,
        history: &History,
        delivery: &mut DeliveryContext<'_>,
    ) -> AnswerWorth {
        let position = numbers.query.position;
        let Some(lost) = &mut self.lost_numbers else {
            return AnswerWorth::Stale;
        };
        let Some(question) = &mut lost.question else {
            return AnswerWorth::Stale;
        };
        let asked = question.view(history.joined().unwrap_or_default());
        let is_asked = numbers.query.joined == asked && numbers.query.from == question.from;
        if !is_asked || position < question.position {
            return AnswerWorth::Stale;
        }
        if !LostNumbers::is_possible(numbers) {
            return AnswerWorth::Impossible;
        }
        // Groups that have left the region meanwhile, too, but none that come by another region.
        let received = |group: &GroupNumbers| {
            let elsewhere = history.is_elsewhere(group.group) || history.has_given_up(group.group);
            delivery.cursors.subscribed(group.group) && !elsewhere
        };
        question.parts.extend(numbers.groups().filter(received));
        // Parts that came before speak of no later packets.
        let first_position = *question.position_told.get_or_insert(position);
        if let Some(next) = numbers.next {
            question.go_on(next);
            return AnswerWorth::Part;
        }
        let sender = self.id.origin;
        for part in question.sort(sender, history, delivery.cursors) {
            let group = part.group;
            if let Some((first, last)) = delivery.cursors.owe(sender, group, part.first) {
                delivery.tell(Miss::Absence {
                    group,
                    sender,
                    first,
                    last,
                });
            }
        }
        if question.later.is_some() {
            question.go_on(GroupId(0));
            return AnswerWorth::Part;
        }
        lost.known_upto = first_position.min(position);
        lost.vague = core::mem::take(&mut question.vague);
        let lasts = core::mem::take(&mut question.lasts);
        lost.question = None;
        lost.told = Some(ToldNumbers { position, lasts });
        AnswerWorth::Whole
    }

    /// The sender will not answer any more.
    pub(super) fn forget_question(&mut self, now: Instant) {
        if let Some(lost) = &mut self.lost_numbers {
            lost.question = None;
            self.go_on(now);
        }
    }

    /// Whether delivery has come to where the sender has told what the last numbers are. Behind
    /// all that is known of a dead sender nothing comes any more, whatever it has told.
    pub(super) fn has_numbers_to_tell(&self) -> bool {
        let told = self.lost_numbers.as_ref();
        let told = told.and_then(|lost| lost.told.as_ref());
        told.is_some_and(|told| {
            let end = self.is_final() && self.delivered == self.highest;
            self.delivered >= told.position || end
        })
    }

    /// Names the messages that have not come although delivery has come past them.
    pub(super) fn tell_numbers(&mut self, delivery: &mut DeliveryContext<'_>) {
        if !self.has_numbers_to_tell() {
            return;
        }
        delivery.loss = self.loss_cause();
        let Some(lost) = &mut self.lost_numbers else {
            return;
        };
        let told = lost.told.take();
        lost.passed.named = true;
        let sender = self.id.origin;
        for (group, last) in told.into_iter().flat_map(|told| told.lasts) {
            if let Some((first, last)) = delivery.cursors.pass(sender, group, last) {
                delivery.lose(LostMessages {
                    group,
                    sender,
                    first,
                    last,
                });
            }
        }
    }

    /// Tells of packets that were passed and whose messages nobody can name.
    pub(super) fn tell_packets(&mut self, delivery: &mut DeliveryContext<'_>) {
        let Some(lost) = &mut self.lost_numbers else {
            return;
        };
        let packets = core::mem::take(&mut lost.unknown_packets);
        if packets > 0 {
            delivery.stats.packets_unknown += packets;
            delivery.out.miss(Miss::Packets {
                groups: delivery.groups,
                sender: self.id.origin,
                packets,
            });
        }
    }
}

impl DeliveryContext<'_> {
    /// Tells that these messages will not come, and counts them.
    #[cold]
    pub(super) fn lose(&mut self, lost: LostMessages) {
        let LostMessages {
            group,
            sender,
            first,
            last,
        } = lost;
        let cause = self.loss;
        let counter = match cause {
            LossCause::Expired => &mut self.stats.messages_expired,
            LossCause::Gone | LossCause::Overdue => &mut self.stats.messages_lost,
        };
        *counter += last + 1 - first;
        self.tell(Miss::Messages {
            group,
            sender,
            first,
            last,
            cause,
        });
    }
}
