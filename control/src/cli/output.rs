//! Where a command's words go: results to stdout, everything else to stderr.

use super::args::Global;
use super::failure::{Failure, Outcome};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Results are JSON.
    pub(crate) json: bool,
    quiet: bool,
}

/// Who reads stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Audience {
    /// Somebody may.
    Reads,
    /// Nobody does any more.
    HasLeft,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        Self { json: global.json, quiet: global.quiet }
    }

    /// Prints a result: `value` with `--json`, otherwise what `text` makes.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Outcome {
        let text = if self.json {
            serde_json::to_string_pretty(value)
                .map_err(|error| Failure::failed(format!("cannot print the result as JSON: {error}")))?
        } else {
            text()
        };
        // A result is printed last of all, whoever reads it.
        print(&text).map(drop)
    }

    /// Tells a person something that is no result.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            complain(text.as_ref());
        }
    }

    /// Whether to draw a live progress line.
    pub(crate) fn is_live(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }
}

/// Prints a line, or several, to stdout.
pub(crate) fn print(text: &str) -> Result<Audience, Failure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    write(format!("{text}{end}").as_bytes())
}

/// Writes to stdout. A reader that has gone away (`egret list | head -1`) is no failure, but an end to what goes on for
/// ever.
pub(crate) fn write(bytes: &[u8]) -> Result<Audience, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Audience::Reads),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Audience::HasLeft),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
    }
}

/// Prints a line, or several, to stderr; where that is closed, nobody wants to know.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text.trim_end()));
}

/// The text with control characters as Rust writes them: it may quote files and programs, which must not reach the
/// terminal with commands for it.
fn printable(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_command) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_command(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// Shows a failure in the way that `--json` or its absence asks for.
pub(crate) fn show_failure(failure: &Failure, json: bool) {
    if failure.shown {
        return;
    }
    if json {
        let _ = print(&format!("{:#}", failure.json()));
    }
    complain(&format!("error: {}", failure.message));
}

/// A table without frames, as `kubectl` prints them: columns of text under their titles.
pub(crate) fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table.set_header(titles);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// `12,345,678`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0, 999, 1000, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn what_is_quoted_gives_the_terminal_no_commands() {
        assert_eq!(printable("no such file\n\tat 3"), "no such file\n\tat 3");
        assert_eq!(printable("a\u{1b}[31mb\r\u{9b}c"), "a\\u{1b}[31mb\\r\\u{9b}c");
    }

    #[test]
    fn a_table_is_plain_text() {
        let text = table(&["NAME", "STATE"], [vec!["word-count".to_owned(), "running".to_owned()]]);
        assert_eq!(text, "NAME        STATE\nword-count  running\n");
    }
}
