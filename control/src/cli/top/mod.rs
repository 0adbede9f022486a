//! `egret top`: a topology live, task by task.
//!
//! `frame` makes a picture of two samples, `screen` draws pictures on a terminal. Elsewhere each is printed as text.

mod frame;
mod screen;

use super::failure::{Failure, Outcome};
use super::interrupts::{Interrupts, Wish};
use super::link::Link;
use super::metrics::{ANSWER_LIMIT, silent};
use super::output::{Audience, print};
use super::{Context, check_name, follow};
use frame::{Frame, Sample};
use screen::Screen;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How long one wait is at most; also how late a key may be seen.
const TURN: Duration = Duration::from_millis(50);

/// Runs the command: a picture every `delay_s` seconds, `count` of them or until the topology or the user ends it.
pub(crate) fn run(context: &Context, name: &str, delay_s: f64, count: Option<u64>) -> Outcome {
    if context.output.json {
        return Err(Failure::usage("`egret top` has no --json; ask `egret metrics --json` again and again"));
    }
    if !(0.1..=3600.0).contains(&delay_s) {
        return Err(Failure::usage(format!("a delay of {delay_s} s: 0.1 to 3600 are right")));
    }
    check_name(context, name)?;
    let state = context.state()?;
    let execution = context.execution(&state, name)?;
    let mut link = Link::new(&state, name, &execution)?;
    let mut interrupts = Interrupts::install()?;
    let mut before = sample(&mut link).ok_or_else(|| silent(name))?;
    let mut view = View::open()?;
    let mut drawn = 0;
    while count.is_none_or(|count| drawn < count) {
        if view.wait(before.at + Duration::from_secs_f64(delay_s), &mut interrupts)? {
            return Ok(());
        }
        // Its tmaster may be about to come back.
        let Some(now) = sample(&mut link) else {
            if state.execution(name)?.is_none_or(|present| present.id != execution.id) {
                return Ok(());
            }
            before.at = Instant::now();
            continue;
        };
        let audience = view.show(Frame::between(&before, &now))?;
        if audience == Audience::HasLeft || follow::is_final(now.status.state) {
            return Ok(());
        }
        (before, drawn) = (now, drawn + 1);
    }
    Ok(())
}

fn sample(link: &mut Link<'_>) -> Option<Sample> {
    let status = link.status(ANSWER_LIMIT)?;
    let metrics = link.metrics(ANSWER_LIMIT)?;
    Some(Sample { at: Instant::now(), status, metrics })
}

/// Where pictures are shown.
enum View {
    Screen(Box<Screen>),
    Text,
}

impl View {
    fn open() -> Result<Self, Failure> {
        if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
            return Ok(Self::Screen(Box::new(Screen::open()?)));
        }
        Ok(Self::Text)
    }

    /// Waits for the next picture's time, and says whether the user has had enough.
    fn wait(&mut self, until: Instant, interrupts: &mut Interrupts) -> Result<bool, Failure> {
        loop {
            if interrupts.wish() != Wish::GoOn {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now()).min(TURN);
            if let Self::Screen(screen) = self {
                if screen.wants_to_quit(left)? {
                    return Ok(true);
                }
            } else {
                std::thread::sleep(left);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    fn show(&mut self, frame: Frame) -> Result<Audience, Failure> {
        match self {
            Self::Screen(screen) => screen.draw(frame).map(|()| Audience::Reads),
            Self::Text => print(&format!("{}\n", frame.text())),
        }
    }
}
