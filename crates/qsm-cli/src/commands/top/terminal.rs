//! The terminal: looks come in, keys come in, and the screen is drawn.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use qsm_console::failure::Failure;
use qsm_console::stop::Stop;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::super::look::{Look, Looker, View};
use super::args::TopArgs;
use super::screen::{Flow, Screen};
use super::view;

/// Time between two looks at keys.
const KEYS: Duration = Duration::from_millis(100);

/// Shows the cluster until the user has seen enough.
pub(super) fn run(args: &TopArgs, stop: &Stop) -> Result<(), Failure> {
    let failed = |error| Failure::io("set up the terminal", &error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = watch(args, stop, &mut terminal);
    ratatui::try_restore().map_err(failed)?;
    outcome
}

fn watch(args: &TopArgs, stop: &Stop, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("use the terminal", &error);
    let mut screen = Screen::new(args.view);
    let (lookout, mut left) = (Lookout::start(args)?, args.count);
    loop {
        if let Some(look) = lookout.newest() {
            screen.take(Instant::now(), look);
            left = left.map(|left| left.saturating_sub(1));
        }
        terminal
            .draw(|frame| view::draw(frame, &screen, Instant::now()))
            .map_err(failed)?;
        if stop.is_asked() || left == Some(0) {
            return Ok(());
        }
        if !event::poll(KEYS).map_err(failed)? {
            continue;
        }
        let flow = match event::read().map_err(failed)? {
            Event::Key(key) if key.kind != KeyEventKind::Release => screen.press(key),
            _ => Flow::Go,
        };
        match flow {
            Flow::Go => {}
            Flow::Look => lookout.look_at(screen.view),
            Flow::End => return Ok(()),
        }
    }
}

/// A thread that looks, so that keys are not kept waiting. It ends with the process.
struct Lookout {
    view: Arc<Mutex<View>>,
    wake: SyncSender<()>,
    looks: Receiver<(View, Look)>,
}

impl Lookout {
    fn start(args: &TopArgs) -> Result<Self, Failure> {
        let view = Arc::new(Mutex::new(args.view));
        let (wake, woken) = sync_channel::<()>(1);
        let (send, looks) = sync_channel(1);
        let (mut looker, interval, wanted) = (
            Looker::new(&args.node, args.timeout),
            args.interval,
            Arc::clone(&view),
        );
        let work = move || {
            loop {
                let view = *wanted.lock().unwrap_or_else(PoisonError::into_inner);
                if send.send((view, looker.look(view))).is_err() {
                    return;
                }
                // A word to look at once, or the time has passed.
                let _either = woken.recv_timeout(interval);
            }
        };
        thread::Builder::new()
            .name("lookout".to_owned())
            .spawn(work)
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self { view, wake, looks })
    }

    fn look_at(&self, view: View) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        // It looks already, if the word cannot be left.
        let _left = self.wake.try_send(());
    }

    /// The newest look, if it is of the view that is wanted.
    fn newest(&self) -> Option<Look> {
        let wanted = *self.view.lock().unwrap_or_else(PoisonError::into_inner);
        match self.looks.try_recv() {
            Ok((view, look)) => (view == wanted).then_some(look),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}
