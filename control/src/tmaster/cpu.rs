//! CPU time of processes on this host, from `/proc`.

use egret_dataplane::host;
use std::time::Duration;

/// User and system time of a process so far, in seconds, as long as it is there. Processes of a virtual host have none.
pub(crate) fn seconds(pid: u32) -> Option<f64> {
    if host::is_virtual() {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(parse(&stat)?.as_secs_f64())
}

/// Fields 14 and 15 of the line, in clock ticks. The name before them is in brackets and may hold anything.
fn parse(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_secs_f64((user + system) as f64 / ticks_per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_summed() {
        let ticks = rustix::param::clock_ticks_per_second();
        let line = format!("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 5 6 7");
        assert_eq!(parse(&line), Some(Duration::from_secs(2)));
    }

    #[test]
    fn this_process_has_a_time() {
        assert!(seconds(std::process::id()).is_some());
        assert!(seconds(u32::MAX).is_none());
    }
}
