//! Pictures on a terminal: its alternate screen, given back at the end.

use super::super::failure::{Failure, Outcome};
use super::frame::{COLUMN_SPACING, Frame, TITLES};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};
use std::time::Duration;

/// The terminal while it is drawn on.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    frame: Option<Frame>,
    /// The first row that is shown.
    scroll: TableState,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(cannot)?;
        Ok(Self { terminal, frame: None, scroll: TableState::default() })
    }

    /// Handles keys for so long; whether one of them asks to quit.
    pub(super) fn wants_to_quit(&mut self, patience: Duration) -> Result<bool, Failure> {
        if !event::poll(patience).map_err(cannot)? {
            return Ok(false);
        }
        match event::read().map_err(cannot)? {
            Event::Key(key) => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
                KeyCode::Down => *self.scroll.offset_mut() += 1,
                KeyCode::Up => *self.scroll.offset_mut() = self.scroll.offset().saturating_sub(1),
                _ => return Ok(false),
            },
            Event::Resize(..) => {}
            _ => return Ok(false),
        }
        self.render()?;
        Ok(false)
    }

    pub(super) fn draw(&mut self, frame: Frame) -> Outcome {
        self.frame = Some(frame);
        self.render()
    }

    fn render(&mut self) -> Outcome {
        let Some(frame) = &self.frame else { return Ok(()) };
        let last = frame.rows.len().saturating_sub(1);
        *self.scroll.offset_mut() = self.scroll.offset().min(last);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let scroll = &mut self.scroll;
        let drawn = self.terminal.draw(|screen| {
            let parts = Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]);
            let [top, middle, bottom] = parts.areas(screen.area());
            let columns = frame.columns(middle.width);
            let rows = frame
                .rows
                .iter()
                .map(|row| columns.iter().map(|(column, _)| row[*column].as_str()).collect::<Row<'_>>());
            let titles: Row<'_> = columns.iter().map(|(column, _)| TITLES[*column]).collect();
            let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
            let table = Table::new(rows, widths).header(titles.style(bold)).column_spacing(COLUMN_SPACING);
            let summary = Paragraph::new(frame.summary.as_str()).wrap(Wrap { trim: true });
            screen.render_widget(summary, top);
            screen.render_stateful_widget(table, middle, scroll);
            let missing =
                if columns.len() < TITLES.len() { "; a wider terminal has more columns" } else { "" };
            screen.render_widget(Line::from(format!("q quits, up and down scroll{missing}")), bottom);
        });
        drawn.map(drop).map_err(cannot)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}
