//! The CPU time of a process and all its descendants, while they run.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::{Duration, Instant};

/// How long a topology may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The processes below and with `root`, as many as there are now.
fn members(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have ended since.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (pid, parent)));
    }
    let mut members = vec![root];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        members.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(members)
}

/// Waits until `root` and its descendants are `count` processes.
///
/// # Errors
/// When they do not become so many within a minute.
pub fn wait_for(root: u32, count: usize) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let found = members(root)?.len();
        if found >= count {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{found} processes after {START_LIMIT:?}, and not {count}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// CPU time of `root` and its descendants until now.
///
/// # Errors
/// When the kernel keeps no scheduler statistics.
pub fn cpu(root: u32) -> Result<Duration> {
    let mut total = 0;
    for pid in members(root)? {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = thread?.path().join("schedstat");
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            // Time on the processor in nanoseconds comes first: in the finest grain that there is.
            total += text.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_and_uses_more() {
        let own = std::process::id();
        assert!(wait_for(own, 1).is_ok());
        let before = cpu(own).unwrap();
        let mut sum = 0_u64;
        while cpu(own).unwrap() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
