//! An object on the terminal, as it is now.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use qsm_console::failure::Failure;
use qsm_console::table::printable;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Style;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use super::change::{Change, shown};

/// Lines of a page.
const PAGE: usize = 10;

/// The screen. The terminal is as it was once this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    picture: Picture,
    /// Last word of the replica.
    pub(super) state: String,
}

/// Content of the screen.
#[derive(Debug, Default)]
struct Picture {
    entries: BTreeMap<String, String>,
    text: String,
    /// The first line that is shown.
    top: usize,
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody could be told.
        drop(ratatui::try_restore());
    }
}

impl Screen {
    pub(super) fn start() -> Result<Self, Failure> {
        let terminal =
            ratatui::try_init().map_err(|error| Failure::io("set up the terminal", &error))?;
        Ok(Self {
            terminal,
            picture: Picture::default(),
            state: String::new(),
        })
    }

    pub(super) fn take(&mut self, change: Change) {
        self.picture.take(change);
    }

    /// Draws, and follows keys; true once the user wants to leave.
    pub(super) fn turn(&mut self) -> Result<bool, Failure> {
        let failed = |error: io::Error| Failure::io("use the terminal", &error);
        let (picture, state) = (&mut self.picture, &self.state);
        let draw = |frame: &mut Frame<'_>| picture.draw(frame, state);
        self.terminal.draw(draw).map_err(failed)?;
        while event::poll(Duration::ZERO).map_err(failed)? {
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind != KeyEventKind::Release
            {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('q') => return Ok(true),
                    KeyCode::Char('c') if control => return Ok(true),
                    code => self.picture.scroll(code),
                }
            }
        }
        Ok(false)
    }
}

impl Picture {
    fn take(&mut self, change: Change) {
        match change {
            Change::Set { key, value, .. } => {
                self.entries.insert(printable(&key), shown(&value));
            }
            Change::Removed { key } => drop(self.entries.remove(&printable(&key))),
            Change::Restart => self.entries.clear(),
            Change::Text(text) => self.text = text,
            // A log is not drawn.
            Change::Entry { .. } | Change::Missed { .. } => {}
        }
    }

    fn lines(&self) -> Vec<String> {
        let width = self.entries.keys().map(|key| key.chars().count()).max();
        let width = width.unwrap_or(0);
        let entries = self.entries.iter();
        let entries = entries.map(|(key, value)| format!("{key:width$}  {value}"));
        let text = self.text.lines().map(printable);
        entries.chain(text).collect()
    }

    fn scroll(&mut self, key: KeyCode) {
        self.top = match key {
            KeyCode::Down | KeyCode::Char('j') => self.top + 1,
            KeyCode::Up | KeyCode::Char('k') => self.top.saturating_sub(1),
            KeyCode::PageDown => self.top + PAGE,
            KeyCode::PageUp => self.top.saturating_sub(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => self.top,
        };
    }

    fn draw(&mut self, frame: &mut Frame<'_>, state: &str) {
        let rows = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]);
        let [body, foot] = rows.areas(frame.area());
        let lines = self.lines();
        let last = lines.len().saturating_sub(usize::from(body.height));
        self.top = self.top.min(last);
        let seen: Vec<_> = lines.iter().skip(self.top).map(String::as_str).collect();
        frame.render_widget(Paragraph::new(seen.join("\n")), body);
        let line = format!(" {} lines, {state}   q: quit", lines.len());
        let foot_line = Paragraph::new(line).style(Style::new().reversed());
        frame.render_widget(foot_line, foot);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn drawn(picture: &mut Picture) -> String {
        let mut terminal = Terminal::new(TestBackend::new(24, 3)).unwrap();
        terminal.draw(|frame| picture.draw(frame, "live")).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_map_is_seen_in_order_and_scrolled() {
        let mut picture = Picture::default();
        for (key, value) in [("long", "2"), ("c", "\u{1b}[2J"), ("gone", ""), ("a", "1")] {
            let (key, value) = (key.to_owned(), value.as_bytes().to_vec());
            let written = None;
            picture.take(Change::Set {
                key,
                written,
                value,
            });
        }
        let key = "gone".to_owned();
        picture.take(Change::Removed { key });
        let shown = drawn(&mut picture);
        assert!(shown.contains("a     1"), "{shown}");
        assert!(shown.contains("c     \\u{1b}[2J"), "{shown}");
        assert!(shown.contains("3 lines, live"), "{shown}");
        picture.scroll(KeyCode::End);
        let shown = drawn(&mut picture);
        assert!(
            shown.contains("long  2") && !shown.contains("a     1"),
            "{shown}"
        );
        picture.take(Change::Restart);
        picture.take(Change::Text("one\ntwo".to_owned()));
        assert!(drawn(&mut picture).contains("two"));
    }
}
