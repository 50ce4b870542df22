//! Two networks whose sources send through the same bottleneck.

use std::time::Duration;

use super::{Net, ms};

/// Two networks at the same time.
pub(crate) struct Pair {
    pub(crate) nets: [Net; 2],
}

impl Pair {
    /// Sends as fast as both sources let it, for so long.
    pub(crate) fn flood(&mut self, duration: Duration) {
        let end = self.nets[0].now().after(duration);
        while self.nets[0].now() < end {
            self.nets.iter_mut().for_each(Net::top_up);
            self.run(ms(1));
        }
        for net in &mut self.nets {
            net.take_steps();
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.nets[0].now().after(duration);
        loop {
            let next = self.nets.each_ref().map(|net| net.next_step());
            let place = usize::from(next[1].is_some_and(|at| next[0].is_none_or(|it| at < it)));
            if next[place].is_none_or(|at| at > end) {
                break;
            }
            self.step(place, next[place].unwrap_or(end));
        }
        for net in &mut self.nets {
            net.step(end);
        }
    }

    /// One thing happens in one network, with the queue as the other one has left it.
    fn step(&mut self, place: usize, at: qsm_wire::Instant) {
        let bottleneck = self.nets[1 - place].shared_mut().clone();
        *self.nets[place].shared_mut() = bottleneck;
        self.nets[place].step(at);
        let bottleneck = self.nets[place].shared_mut().clone();
        *self.nets[1 - place].shared_mut() = bottleneck;
    }
}
