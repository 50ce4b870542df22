//! The one thread of a host whose work costs time ([`crate::cost`]).
//!
//! ```text
//!   arrival ─► socket ─┐                  ┌─► machine ─► datagrams leave one after the other
//!   timer ─────────────┼─► run: pick one ─┤
//!   application ───────┘        ▲         └─► busy until the event is paid for ─┐
//!                               └───────────────────────────────────────────────┘
//! ```

use super::{Engine, Happening, Turn};
use crate::cost::{CostModel, Cpu, Work};
use crate::machine::Machine;
use crate::violation::Violation;
use qsm_proto::mix;

impl Engine {
    /// From now on the host's work costs what the model says; it publishes to so many groups.
    pub(crate) fn set_costs(&mut self, host: usize, model: CostModel, groups: u64) {
        let phase = mix(self.digest.value() ^ host as u64);
        self.hosts[host].cpu = Some(Box::new(Cpu::new(model, groups, phase)));
    }

    pub(crate) fn cpu(&mut self, host: usize) -> Option<&mut Cpu> {
        self.hosts[host].cpu.as_deref_mut()
    }

    /// The host's application has something to publish, or has not.
    pub(crate) fn feed(&mut self, host: usize, on: bool) {
        if let Some(cpu) = &mut self.hosts[host].cpu {
            cpu.feeding = on;
            self.wake(host);
        }
    }

    /// The host's thread will run, unless it stands still or is going to anyway.
    pub(super) fn wake(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let Some(cpu) = &mut state.cpu else { return };
        if !cpu.scheduled && state.frozen_until.is_none() {
            cpu.scheduled = true;
            let at = cpu.wakes(self.now);
            self.queue.push(at, Happening::Run(host, state.process));
        }
    }

    /// One turn of a host's thread.
    pub(super) fn run(&mut self, host: usize, process: u32) -> Result<Option<Turn>, Violation> {
        let now = self.now;
        let state = &mut self.hosts[host];
        let (Some(cpu), true) = (&mut state.cpu, state.process == process) else {
            return Ok(None);
        };
        cpu.scheduled = false;
        if state.frozen_until.is_some() {
            return Ok(None);
        }
        let due = state.due.map(|at| state.clock.global(at));
        let due = due.filter(|at| *at <= now);
        let fed = cpu.feeding && state.machine.as_ref().is_some_and(Machine::wants_more);
        let waited = cpu.waited(now);
        match cpu.pick(now, due.is_some(), fed) {
            Work::Datagram(datagram) => {
                cpu.receives(now, &datagram.bytes);
                let (backlog, dropped) = (cpu.has_datagrams(), cpu.take_untold());
                if let Some(machine) = &mut state.machine {
                    let now = state.clock.local(now);
                    machine.note_sojourn(now, waited);
                    machine.set_backlog(now, backlog);
                    machine.note_drops(now, dropped);
                }
                let from = self.source(host, &datagram);
                self.drive(host, |machine, now, out| {
                    machine.handle_datagram(now, from, &datagram.bytes, out);
                })?;
            }
            Work::Timer => {
                cpu.times_out(now, due.unwrap_or(now));
                self.drive(host, |machine, now, out| machine.handle_timeout(now, out))?;
            }
            Work::Feed => return Ok(Some(Turn::Feed(host))),
            Work::Sleep => {
                self.set_timer(host);
                return Ok(None);
            }
        }
        Ok(self.concerns_caller(host).then_some(Turn::Host(host)))
    }

    /// After an input: what it cost, and when the thread has its next turn.
    pub(super) fn settle(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let (Some(cpu), Some(machine)) = (&mut state.cpu, &state.machine) else {
            return;
        };
        cpu.delivers(self.now, self.outputs.deliveries.rows().len());
        cpu.finish(self.now, machine.kept_bytes());
        let fed = cpu.feeding && machine.wants_more();
        let timer = state.due.map(|at| state.clock.global(at));
        if fed || cpu.has_datagrams() || timer.is_some_and(|at| at <= cpu.busy_until) {
            self.wake(host);
        }
    }
}
