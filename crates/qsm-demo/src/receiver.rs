//! A receiver of the demonstration.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use qsm_console::failure::Failure;

use crate::messages::{DemoCommand, DemoReport, End};
use crate::node::{DemoNode, say};
use crate::plan::Plan;
use crate::tally::Tally;

/// How often it is looked whether everything has come.
const LOOK: Duration = Duration::from_millis(20);

/// Losses that wait to be shown.
const LOSSES: usize = 64;

/// Receives until the coordinator ends it.
///
/// # Errors
/// The node has ended.
pub(crate) fn run(plan: &Plan, index: usize, mut child: DemoNode) -> Result<(), Failure> {
    let groups = plan.groups_of(index);
    let name = |&group: &usize| plan.groups[group].name.clone();
    let names: Vec<String> = groups.iter().map(name).collect();
    let tally = Tally::new(names.iter().cloned().zip(groups.iter().copied()));
    let tally = Arc::new(Mutex::new(tally));
    let shared = Arc::clone(&tally);
    let (lose, losses) = sync_channel(LOSSES);
    let upcalls = child.node.groups(&names).subscribe_with(move |delivery| {
        match delivery.message() {
            Some(message) => lock(&shared).add(message),
            // Too many are one trouble.
            None => drop(lose.try_send(format!("{delivery:?}"))),
        }
    })?;
    child.ready()?;
    let mut awaited: Option<(Vec<End>, Instant)> = None;
    loop {
        match child.told.recv_timeout(LOOK) {
            Ok(DemoCommand::Report { ends, patience_ms }) => {
                awaited = Some((ends, Instant::now() + Duration::from_millis(patience_ms)));
            }
            Ok(DemoCommand::End) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(
                DemoCommand::Start
                | DemoCommand::Mark
                | DemoCommand::Finish
                | DemoCommand::Hash { .. },
            )
            | Err(RecvTimeoutError::Timeout) => {}
        }
        let over = awaited.as_ref().is_some_and(|(ends, until)| {
            lock(&tally).has_reached(ends) || Instant::now() >= *until
        });
        if over {
            child.hurry();
        }
        for lost in losses.try_iter() {
            say(&DemoReport::Trouble(lost))?;
        }
        child.report(|figures| {
            let tally = lock(&tally);
            figures.messages = tally.messages;
            figures.bytes = tally.bytes;
            figures.groups = groups.len() as u64;
        })?;
        if over {
            let streams = lock(&tally).streams();
            say(&DemoReport::Received { streams })?;
            awaited = None;
        }
    }
    drop(upcalls);
    // The coordinator has what it wants; a goodbye unheard changes nothing.
    drop(child.node.shutdown(Duration::from_secs(1)));
    Ok(())
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
