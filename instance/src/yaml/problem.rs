//! What is wrong in a YAML file, with its line and a snippet.

use super::node::Place;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// How much of a message is shown, and how much of a line before and behind the caret.
const MESSAGE_MAX_CHARS: usize = 1000;
const LINE_BEFORE_CHARS: usize = 100;
const LINE_AFTER_CHARS: usize = 100;

/// Everything that was found wrong; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlErrors {
    /// The single problems, by line.
    pub problems: Vec<YamlProblem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlProblem {
    /// The file as the user named it, or `None` for an entry of the command line.
    pub file: Option<PathBuf>,
    /// The line from 1, or 0 when it is about no line.
    pub line: usize,
    /// The column from 1, or 0 when it is about no column.
    pub column: usize,
    /// What is wrong and what would be right; names the component where there is one.
    pub message: String,
    /// The text of the line; empty when there is none.
    pub source_line: String,
}

impl std::error::Error for YamlErrors {}

impl fmt::Display for YamlErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for YamlProblem {
    /// `FILE:LINE: MESSAGE`, then the line with a caret under the column.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if self.line > 0 {
                write!(f, "{}:", self.line)?;
            }
            f.write_char(' ')?;
        }
        f.write_str(&shortened(&self.message))?;
        if self.line == 0 || self.source_line.is_empty() {
            return Ok(());
        }
        let margin = " ".repeat(self.line.to_string().len());
        let (shown, before) = excerpt(&self.source_line, self.column.saturating_sub(1));
        write!(f, "\n{margin} |\n{} | {shown}", self.line)?;
        // A tab before the caret stays a tab, so that both lines are moved alike.
        let indent: String = shown.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
        write!(f, "\n{margin} | {indent}^")
    }
}

/// A message of a length that a person reads: what it quotes from the file may be endless.
fn shortened(message: &str) -> Cow<'_, str> {
    let count = message.chars().count();
    if count <= MESSAGE_MAX_CHARS {
        return message.into();
    }
    let begin: String = message.chars().take(MESSAGE_MAX_CHARS / 2).collect();
    let end: String = message.chars().skip(count - MESSAGE_MAX_CHARS / 2).collect();
    format!("{begin} … {end}").into()
}

/// The part of a line around the character at `column`, from 0, and where in that part this character is.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    // Nothing in a file may move the cursor of the terminal that shows it.
    let mut shown: Vec<char> =
        line.chars().map(|c| if c.is_control() && c != '\t' { '\u{FFFD}' } else { c }).collect();
    let mut column = column.min(shown.len());
    if shown.len() > column + LINE_AFTER_CHARS {
        shown.truncate(column + LINE_AFTER_CHARS);
        shown.push('…');
    }
    if column > LINE_BEFORE_CHARS {
        shown.splice(..column - LINE_BEFORE_CHARS, ['…']);
        column = LINE_BEFORE_CHARS + 1;
    }
    (shown.into_iter().collect(), column)
}

/// Collects the problems of one file.
pub(super) struct Problems<'a> {
    file: &'a Path,
    source: &'a str,
    found: Vec<YamlProblem>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(file: &'a Path, source: &'a str) -> Self {
        Self { file, source, found: Vec::new() }
    }

    /// Adds a problem at a place of the file.
    pub(super) fn add(&mut self, at: Place, message: impl Into<String>) {
        let source_line = at.line.checked_sub(1).and_then(|i| self.source.lines().nth(i)).unwrap_or_default();
        self.found.push(YamlProblem {
            file: Some(self.file.to_owned()),
            line: at.line,
            column: at.column,
            message: message.into(),
            source_line: source_line.to_owned(),
        });
    }

    /// Adds a problem of the command line.
    pub(super) fn add_override(&mut self, message: String) {
        self.found.push(YamlProblem { file: None, line: 0, column: 0, message, source_line: String::new() });
    }

    pub(super) fn text_of(&self) -> &'a str {
        self.source
    }

    /// Adds what the parser says.
    pub(super) fn add_syntax(&mut self, error: &serde_saphyr::Error) {
        let at = error.location().map(Place::from).unwrap_or_default();
        let options = serde_saphyr::render_options! {
            formatter: &serde_saphyr::UserMessageFormatter,
            snippets: serde_saphyr::SnippetMode::Off,
        };
        let text = error.render_with_options(options);
        let place = format!(" at line {}, column {}", at.line, at.column);
        self.add(at, format!("this is no valid YAML: {}", text.strip_suffix(&place).unwrap_or(&text)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All that was found, in the order of the file.
    pub(super) fn into_errors(mut self) -> YamlErrors {
        self.found.sort_by_key(|p| (p.line, p.column));
        self.found.dedup();
        YamlErrors { problems: self.found }
    }
}
