//! Turns of a core, and the pauses between them.

use std::io;
use std::time::Duration;

use super::{BYTES_LOADED, Core};
use crate::error::CloseReason;

/// How long the core stays awake after a turn that received or sent much, as the rest of a window takes to go around.
const AWAKE: Duration = Duration::from_micros(200);

/// Why a core pauses.
pub(super) enum Pause {
    /// To sleep for that long, or until something comes; it is lent meanwhile.
    Sleep(Option<Duration>),
    /// The node ends.
    End(CloseReason),
}

impl Core {
    /// Turns until it may be lent or the node ends.
    pub(super) fn run(&mut self) -> Pause {
        if let Some(reason) = self.broken.take() {
            return Pause::End(reason);
        }
        self.slice.begin(self.clock.now());
        loop {
            let paused = match self.turn() {
                Ok(None) => self.wait(),
                ended => ended,
            };
            match paused {
                Ok(None) => {}
                Ok(Some(pause)) => return pause,
                Err(error) => return Pause::End(sockets_failed(&error)),
            }
        }
    }

    fn turn(&mut self) -> io::Result<Option<Pause>> {
        self.now = self.clock.now();
        self.stats.turns += 1;
        self.begin_watching();
        self.receive()?;
        if let Some(reason) = self.take_entry_news() {
            return Ok(Some(Pause::End(reason)));
        }
        self.note_strangers();
        self.follow_addresses();
        self.run_timers();
        self.take_commands();
        self.take_messages();
        self.take_events();
        let sent = self
            .transmitter
            .run(self.now, &mut self.endpoint, &mut self.port);
        self.load.heavy |= sent >= BYTES_LOADED;
        let ended = self.go_on_closing();
        self.go_on_recording();
        self.wake();
        self.watch_stages();
        self.note_memory();
        self.done = self.clock.now();
        self.stats.turn_max = self.stats.turn_max.max(self.done.since(self.now));
        if self.load.heavy {
            self.load.awake_until = self.done.after(AWAKE);
        }
        self.attention.rest(self.done, self.load.heavy);
        Ok(ended.map(Pause::End))
    }

    fn wait(&mut self) -> io::Result<Option<Pause>> {
        let blocked = !self.port.writable();
        let more = self.load.cut || self.sources.is_active() || self.transmitter.has_more();
        let work = more && !blocked;
        if self.slice.spins() || work || self.stays_awake() {
            self.stats.awake += u64::from(!work);
            self.give_way(work);
            return Ok(None);
        }
        let due = self.next_timeout();
        let due = self.attention.sleep(due);
        let left = due.map(|due| due.since(self.clock.now()));
        let left = left.into_iter().chain(self.port.due()).min();
        if left == Some(Duration::ZERO) {
            return Ok(None);
        }
        self.stats.sleeps += 1;
        if self.lends() {
            self.asleep_until = due;
            return Ok(Some(Pause::Sleep(left)));
        }
        self.port.wait(left)?;
        self.slice.begin(self.clock.now());
        Ok(None)
    }

    /// Whether a sleeping core may be lent. One that runs before others must not wait for them, and
    /// one that polls its devices while it sleeps has to do that itself.
    fn lends(&self) -> bool {
        self.lendable && self.closing.is_none() && self.sources.has_queues()
    }

    /// Whether more is likely to come before it could have slept. Nobody waits for that: who else
    /// wants the CPU gets it.
    fn stays_awake(&self) -> bool {
        self.done < self.load.awake_until && self.slice.is_given(self.done)
    }

    /// Others who wait for this CPU go first when the slice is over, or when there is no work now.
    fn give_way(&mut self, work: bool) {
        if !work || self.slice.is_over(self.done) {
            self.slice.give_away(self.done, self.clock);
        }
    }
}

pub(super) fn sockets_failed(error: &io::Error) -> CloseReason {
    let cause = format!("sockets failed: {error}");
    CloseReason::Io { cause }
}
