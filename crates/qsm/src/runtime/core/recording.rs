//! A core that is recorded brings that to the disk, and tells when it stops.

use qsm_record::Stopped;

use super::Core;
use crate::event::Event;

impl Core {
    /// Brings what was noted to the disk, once in each turn.
    #[inline]
    pub(super) fn go_on_recording(&mut self) {
        if let Some(stopped) = self.endpoint.turn(self.now) {
            self.tell_of_recording(stopped);
        }
    }

    /// Waits until the file is written.
    pub(super) fn end_recording(&mut self) {
        if let Err(stopped) = self.endpoint.end() {
            self.tell_of_recording(stopped);
        }
    }

    fn tell_of_recording(&mut self, reason: Stopped) {
        if let Some(path) = self.recording.take() {
            self.readers.tell(&Event::RecordingStopped { path, reason });
        }
    }
}
