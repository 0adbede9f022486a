//! A topology's life as its host sees it: its processes while it runs, what deaths do to it, and what is left of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clean_up;
mod clock;
mod disk;
mod figures;
mod flow;
mod hostile;
mod idle;
mod invalid;
mod memlock;
mod over;
mod processes;
mod processors;
mod reactor;
mod reasons;
mod restarts;
mod starts;
mod support;
mod takeovers;
mod users;
