//! State of the screen: what is shown of the looks, and the keys that change it.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::look::{Look, View};
use super::sheet::{self, Order, Sheet};

/// Looks whose rates are remembered.
const REMEMBERED: usize = 240;
/// Lines that a page goes down.
const PAGE: usize = 20;

/// State of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) view: View,
    pub(super) order: Order,
    pub(super) filter: String,
    /// Keys are letters of the filter.
    pub(super) filtering: bool,
    /// New looks are not shown.
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The line that is marked.
    pub(super) at: usize,
    pub(super) look: Option<Look>,
    /// Its lines, as they are to be shown.
    pub(super) sheet: Option<Sheet>,
    /// Time of the last look that has seen the cluster, or the nodes here where only those are shown.
    pub(super) seen: Option<Instant>,
    /// Messages a second that the cluster has delivered, the newest last.
    pub(super) delivered: VecDeque<u64>,
}

/// Consequence of a key for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It goes on.
    Go,
    /// Another view needs other lists: at once.
    Look,
    /// The user has seen enough.
    End,
}

impl Screen {
    pub(super) fn new(view: View) -> Self {
        Self {
            view,
            order: Order::Trouble,
            filter: String::new(),
            filtering: false,
            paused: false,
            help: false,
            at: 0,
            look: None,
            sheet: None,
            seen: None,
            delivered: VecDeque::new(),
        }
    }

    /// Takes a look. Where the service did not answer, what it said before stays.
    pub(super) fn take(&mut self, now: Instant, mut look: Look) {
        if self.paused {
            return;
        }
        match &look.trouble {
            None => self.seen = Some(now),
            Some(_) => {
                if let Some(old) = self.look.take() {
                    look.nodes = old.nodes;
                    look.groups = old.groups;
                    look.regions = old.regions;
                }
            }
        }
        if self.view.is_of_cluster() && look.trouble.is_none() {
            self.delivered.push_back(look.rates().1);
            if self.delivered.len() > REMEMBERED {
                self.delivered.pop_front();
            }
        }
        self.look = Some(look);
        self.refresh();
    }

    /// Makes the lines to show.
    fn refresh(&mut self) {
        let look = self.look.as_ref();
        self.sheet = look.map(|look| sheet::of(look, self.view, self.order, &self.filter));
        self.mark(self.at);
    }

    /// Marks a line, or the last one.
    fn mark(&mut self, at: usize) {
        let lines = self.sheet.as_ref().map_or(0, |sheet| sheet.lines.len());
        self.at = at.min(lines.saturating_sub(1));
    }

    /// A key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Flow::End,
                _ => Flow::Go,
            };
        }
        match (self.filtering, self.help) {
            (true, _) => self.type_filter(key.code),
            (false, true) => {
                self.help = false;
                Flow::Go
            }
            (false, false) => self.command(key.code),
        }
    }

    fn type_filter(&mut self, key: KeyCode) -> Flow {
        match key {
            KeyCode::Enter => self.filtering = false,
            KeyCode::Esc => {
                self.filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.refresh();
        Flow::Go
    }

    fn command(&mut self, key: KeyCode) -> Flow {
        let place = View::ALL
            .iter()
            .position(|view| *view == self.view)
            .unwrap_or(0);
        let views = View::ALL.len();
        match key {
            KeyCode::Char('q') => return Flow::End,
            KeyCode::Tab | KeyCode::Right => return self.show(View::ALL[(place + 1) % views]),
            KeyCode::BackTab | KeyCode::Left => {
                return self.show(View::ALL[(place + views - 1) % views]);
            }
            KeyCode::Char(digit @ '1'..='4') => {
                let chosen = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                return self.show(View::ALL[chosen]);
            }
            KeyCode::Char('o') => {
                self.order = self.order.next();
                self.refresh();
            }
            KeyCode::Char('/') => self.filtering = true,
            KeyCode::Esc => {
                self.filter.clear();
                self.refresh();
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Down | KeyCode::Char('j') => self.mark(self.at + 1),
            KeyCode::Up | KeyCode::Char('k') => self.mark(self.at.saturating_sub(1)),
            KeyCode::PageDown => self.mark(self.at + PAGE),
            KeyCode::PageUp => self.mark(self.at.saturating_sub(PAGE)),
            KeyCode::Home => self.mark(0),
            KeyCode::End => self.mark(usize::MAX),
            _ => {}
        }
        Flow::Go
    }

    fn show(&mut self, view: View) -> Flow {
        self.view = view;
        self.look = None;
        self.sheet = None;
        self.at = 0;
        self.paused = false;
        Flow::Look
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use qsm_console::failure::Failure;

    use super::*;

    const LATER: Duration = Duration::from_secs(1);

    fn press(screen: &mut Screen, keys: &[KeyCode]) -> Flow {
        let press = |screen: &mut Screen, key| screen.press(KeyEvent::from(key));
        keys.iter().fold(Flow::Go, |_, key| press(screen, *key))
    }

    #[test]
    fn keys_choose_views_orders_and_lines() {
        let mut screen = Screen::new(View::Nodes);
        assert_eq!(press(&mut screen, &[KeyCode::Tab]), Flow::Look);
        assert_eq!(screen.view, View::Groups);
        press(&mut screen, &[KeyCode::Left, KeyCode::Left]);
        assert_eq!(screen.view, View::Here);
        press(&mut screen, &[KeyCode::Char('3'), KeyCode::Char('o')]);
        assert_eq!((screen.view, screen.order), (View::Regions, Order::Load));
        assert_eq!(press(&mut screen, &[KeyCode::Char('q')]), Flow::End);
        // No line is marked that is not there.
        press(&mut screen, &[KeyCode::End, KeyCode::Down]);
        assert_eq!(screen.at, 0);
    }

    #[test]
    fn a_filter_takes_the_letters_that_are_commands_else() {
        let mut screen = Screen::new(View::Nodes);
        let keys = ['/', 'q', 'x', '1'].map(KeyCode::Char);
        assert_eq!(press(&mut screen, &keys), Flow::Go);
        press(&mut screen, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((screen.filter.as_str(), screen.filtering), ("qx", false));
        assert_eq!(press(&mut screen, &[KeyCode::Esc]), Flow::Go);
        assert_eq!(screen.filter, "");
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        screen.filtering = true;
        assert_eq!(screen.press(end), Flow::End);
    }

    #[test]
    fn what_was_seen_stays_while_the_service_does_not_answer() {
        let mut screen = Screen::new(View::Groups);
        let start = Instant::now();
        let group = qsm::GroupRow {
            group: qsm::GroupId(1),
            name: "news".to_owned(),
            members: 1,
            regions: 1,
            publishers: 1,
        };
        screen.take(
            start,
            Look {
                groups: vec![group],
                ..Look::default()
            },
        );
        let silent = || Look {
            trouble: Some(Failure::timeout("nobody answered", "wait")),
            ..Look::default()
        };
        screen.take(start + LATER, silent());
        screen.take(start + 2 * LATER, silent());
        let sheet = screen.sheet.as_ref().unwrap();
        assert_eq!(sheet.lines.len(), 1);
        assert_eq!(screen.seen, Some(start));
        assert!(screen.look.is_some_and(|look| look.trouble.is_some()));
    }
}
