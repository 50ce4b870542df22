//! The picture of the screen's state.

use std::time::Instant;

use qsm_console::figures::duration;
use qsm_console::table::{Align, printable};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState};

use super::super::look::{Health, View};
use super::screen::Screen;
use super::sheet::{Column, Sheet};

/// Keys, for the help.
const KEYS: [(&str, &str); 8] = [
    ("1 2 3 4, Tab", "nodes, groups, regions, here"),
    ("↑ ↓ PgUp PgDn", "another line"),
    ("o", "order: trouble, load, name"),
    ("/ text Enter", "only names that contain the text"),
    ("Esc", "all names"),
    ("space", "stand still, go on"),
    ("h", "this help"),
    ("q", "end"),
];

/// Draws it.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, now: Instant) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [tabs, summary, rates, lines, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(tab_line(screen), tabs);
    frame.render_widget(summary_line(screen, now), summary);
    let newest = usize::from(rates.width).min(screen.delivered.len());
    let newest = screen.delivered.len() - newest;
    let sparkline = Sparkline::default()
        .data(screen.delivered.iter().skip(newest).copied())
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, rates);
    match &screen.sheet {
        Some(sheet) => draw_sheet(frame, lines, screen, sheet),
        None if screen.view.is_of_cluster() => {
            frame.render_widget("looking for the membership service …", lines);
        }
        None => frame.render_widget("asking the nodes of this host …", lines),
    }
    frame.render_widget(foot_line(screen), foot);
    if screen.help {
        draw_help(frame);
    }
}

fn tab_line(screen: &Screen) -> Line<'static> {
    let mut spans = vec![Span::styled("qsm top ", Modifier::BOLD)];
    for (number, view) in View::ALL.into_iter().enumerate() {
        let style = match view == screen.view {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let name = format!(" {} {} ", number + 1, view.name());
        spans.extend([Span::raw(" "), Span::styled(name, style)]);
    }
    Line::from(spans)
}

/// The whole in a line, or why nothing is known of it.
fn summary_line(screen: &Screen, now: Instant) -> Line<'static> {
    let Some(look) = &screen.look else {
        return Line::default();
    };
    let Some(trouble) = &look.trouble else {
        let state = if screen.paused { " (paused)" } else { "" };
        return Line::raw(format!("{}{state}", look.summary()));
    };
    let old = screen.seen.map_or_else(String::new, |seen| {
        format!("; what is shown is {} old", duration(now - seen))
    });
    Line::styled(format!("{}{old}", printable(&trouble.cause)), Color::Red)
}

fn foot_line(screen: &Screen) -> Line<'static> {
    match (screen.filtering, screen.filter.is_empty()) {
        (true, _) => Line::raw(format!(
            "/{}▏ Enter: keep it, Esc: all names",
            screen.filter
        )),
        (false, true) => Line::raw(format!("order: {}   h: keys   q: end", screen.order.name())),
        (false, false) => Line::raw(format!(
            "order: {}   names with {:?} (Esc: all)   h: keys   q: end",
            screen.order.name(),
            screen.filter
        )),
    }
}

/// Only lines that there is room for, around the marked one.
fn draw_sheet(frame: &mut Frame<'_>, area: Rect, screen: &Screen, sheet: &Sheet) {
    let last = sheet.columns.len() - 1;
    let widths = sheet.columns.iter().enumerate();
    let widths = widths.map(|(at, column)| match column.align {
        Align::Left if at == last => Constraint::Fill(1),
        _ => Constraint::Length(column.width),
    });
    let headings = sheet.columns.iter();
    let headings = headings.map(|column| cell(column, column.heading));
    let room = usize::from(area.height).saturating_sub(1);
    let most = sheet.lines.len().saturating_sub(room);
    let first = screen.at.saturating_sub(room / 2).min(most);
    let rows = sheet.lines.iter().skip(first).take(room).map(|line| {
        let cells = sheet.columns.iter().zip(&line.cells);
        Row::new(cells.map(|(column, text)| cell(column, text))).style(match line.health {
            Health::Bad => Style::new().fg(Color::Red),
            Health::Doubtful => Style::new().fg(Color::Yellow),
            Health::Good => Style::new(),
        })
    });
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(Modifier::BOLD))
        .column_spacing(2)
        .row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::default().with_selected(screen.at - first);
    frame.render_stateful_widget(table, area, &mut state);
}

fn cell<'a>(column: &Column, text: &'a str) -> Cell<'a> {
    let line = Line::raw(text);
    Cell::from(match column.align {
        Align::Left => line,
        Align::Right => line.alignment(Alignment::Right),
    })
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = KEYS.map(|(keys, what)| Line::raw(format!(" {keys:<15}{what}")));
    let all = frame.area();
    let (width, height) = (52.min(all.width), (KEYS.len() as u16 + 2).min(all.height));
    let area = Rect {
        x: (all.width - width) / 2,
        y: (all.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let text = Paragraph::new(lines.to_vec()).block(Block::bordered().title(" Keys "));
    frame.render_widget(text, area);
}

#[cfg(test)]
mod tests {
    use qsm::{AwayReason, Incarnation, NodeId, NodeRow, Origin, Rates};
    use qsm_console::failure::Failure;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Duration;

    use super::super::super::look::Look;
    use super::*;

    fn node(name: &str, away: Option<AwayReason>) -> NodeRow {
        NodeRow {
            origin: Origin {
                node: NodeId(1),
                incarnation: Incarnation(1),
            },
            name: name.to_owned(),
            address: "10.0.0.1:4484".parse().unwrap(),
            region: None,
            subscriptions: 2,
            publications: 0,
            away,
            deaf: false,
            about: None,
            rates: Some(Rates {
                sent: 10,
                received: 2000,
            }),
            grant: None,
            description: None,
        }
    }

    fn lines(screen: &Screen, now: Instant) -> (Vec<String>, Terminal<TestBackend>) {
        let mut terminal = Terminal::new(TestBackend::new(100, 12)).unwrap();
        terminal.draw(|frame| draw(frame, screen, now)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = (0..12).map(|y| (0..100).map(|x| buffer[(x, y)].symbol()).collect());
        (lines.collect(), terminal)
    }

    #[test]
    fn who_is_away_is_on_top_and_red() {
        let mut screen = Screen::new(View::Nodes);
        let now = Instant::now();
        let look = Look {
            nodes: vec![node("desk", None), node("lamp", Some(AwayReason::Slow))],
            ..Look::default()
        };
        screen.take(now, look);
        screen.at = 1;
        let (lines, terminal) = lines(&screen, now);
        assert!(lines[0].contains(" 1 nodes "), "{lines:#?}");
        assert!(
            lines[1].starts_with("2 nodes, 1 away; 20 messages/s sent, 4.0 k received"),
            "{lines:#?}"
        );
        assert!(lines[4].starts_with("NODE  STATE"), "{lines:#?}");
        assert!(
            lines[5].starts_with("lamp  away: slower than the others"),
            "{lines:#?}"
        );
        assert!(lines[6].starts_with("desk  live"), "{lines:#?}");
        assert_eq!(terminal.backend().buffer()[(0, 5)].fg, Color::Red);
    }

    #[test]
    fn a_service_that_does_not_answer_is_said_and_how_old_the_rest_is() {
        let mut screen = Screen::new(View::Nodes);
        let now = Instant::now();
        let (empty, _) = lines(&screen, now);
        assert!(
            empty[4].starts_with("looking for the membership service"),
            "{empty:#?}"
        );
        let look = Look {
            nodes: vec![node("desk", None)],
            ..Look::default()
        };
        screen.take(now, look);
        let silent = Look {
            trouble: Some(Failure::timeout("no membership service answered", "wait")),
            ..Look::default()
        };
        screen.take(now + Duration::from_secs(2), silent);
        let (lines, terminal) = lines(&screen, now + Duration::from_secs(3));
        let said = "no membership service answered; what is shown is 3.00 s old";
        assert!(lines[1].starts_with(said), "{lines:#?}");
        assert_eq!(terminal.backend().buffer()[(0, 1)].fg, Color::Red);
        assert!(lines[5].starts_with("desk  live"), "{lines:#?}");
    }

    #[test]
    fn of_many_lines_those_around_the_marked_one_are_shown() {
        let mut screen = Screen::new(View::Nodes);
        let now = Instant::now();
        let look = Look {
            nodes: (100..200)
                .map(|number| node(&format!("n{number}"), None))
                .collect(),
            ..Look::default()
        };
        screen.take(now, look);
        for (at, first, last) in [
            (0, "n100", "n105"),
            (50, "n147", "n152"),
            (99, "n194", "n199"),
        ] {
            screen.at = at;
            let (lines, _) = lines(&screen, now);
            assert!(lines[5].starts_with(first), "{at}: {lines:#?}");
            assert!(lines[10].starts_with(last), "{at}: {lines:#?}");
        }
    }

    #[test]
    fn it_can_be_drawn_at_any_size() {
        let mut screen = Screen::new(View::Here);
        screen.help = true;
        screen.take(Instant::now(), Look::default());
        for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal
                .draw(|frame| draw(frame, &screen, Instant::now()))
                .unwrap();
        }
    }
}
