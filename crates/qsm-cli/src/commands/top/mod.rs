//! `qsm top`: nodes, groups and regions of the cluster, and the nodes of this host, as they change.
//!
//! ```text
//!   service ── lists ──────┐
//!                          ├──► Look ──► Sheet ──► screen, tables or JSON
//!   nodes here ─ counters ─┘
//! ```

mod args;
mod screen;
mod sheet;
mod terminal;
mod view;

use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::stop::Stop;
use serde_json::json;

pub(crate) use self::args::TopArgs;
use super::look::{Look, Looker};

/// Shortest time between two looks: a service cuts a list anew at most so often.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Time between two looks at whether the user wants to end it.
const ATTENTION: Duration = Duration::from_millis(100);

/// Runs the command.
///
/// # Errors
/// The interval is too short; where it writes: no service answers in time, or the output cannot be
/// written; else: the terminal cannot be set up.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::usage(
            "--interval is shorter than 0.2 s",
            "give a longer one: rates of nodes are means of 5 s",
        ));
    }
    let stop = Stop::on_signals()?;
    match args.batch || args.json || !stdout().is_terminal() {
        true => batch(args, &stop),
        false => terminal::run(args, &stop),
    }
}

/// Writes one look after another.
fn batch(args: &TopArgs, stop: &Stop) -> Result<(), Failure> {
    let mut looker = Looker::new(&args.node, args.timeout);
    // Rates of nodes here need two looks.
    if !args.view.is_of_cluster() {
        looker.look(args.view);
        rest(args.interval.min(Duration::from_secs(1)), stop);
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && !stop.is_asked() {
        let begun = Instant::now();
        let mut look = looker.look(args.view);
        if let Some(trouble) = look.trouble.take() {
            return Err(trouble);
        }
        output::write(written(args, &look))?;
        left -= 1;
        if left > 0 {
            rest(args.interval.saturating_sub(begun.elapsed()), stop);
        }
    }
    Ok(())
}

fn written(args: &TopArgs, look: &Look) -> String {
    if args.json {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default().as_secs_f64();
        let rows = look.json(args.view);
        let line = json!({ "time": time, "view": args.view.name(), "rows": rows });
        return format!("{line}\n");
    }
    let sheet = sheet::of(look, args.view, sheet::Order::Trouble, "");
    let after = if args.count == Some(1) { "" } else { "\n" };
    format!("{}\n{}{after}", look.summary(), sheet.render())
}

fn rest(time: Duration, stop: &Stop) {
    let until = Instant::now() + time;
    while !stop.is_asked() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(ATTENTION));
    }
}
