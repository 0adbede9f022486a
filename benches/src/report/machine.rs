//! The machine that something was measured on.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What a reader must know of a machine to judge figures of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The frequency governor of processor 0, where it has one.
    pub governor: Option<String>,
    /// Processors that the kernel keeps free of other threads (`isolcpus`).
    pub isolated: String,
    /// Whether shared memory may use transparent huge pages, and how many are reserved.
    pub huge_pages: String,
    /// Whether it is a virtual machine.
    pub hypervisor: bool,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |key: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let shmem = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
        let chosen = shmem.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let reserved = read("/proc/sys/vm/nr_hugepages").unwrap_or_else(|| "none".to_owned());
        Self {
            processor: field("model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            isolated: read("/sys/devices/system/cpu/isolated").unwrap_or_default(),
            huge_pages: format!("{}, {} reserved", chosen.map_or("unknown", |(word, _)| word), reserved),
            hypervisor: field("flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
        }
    }

    /// In a line or two.
    #[must_use]
    pub fn text(&self) -> String {
        let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
        format!(
            "{}, {} processors{}, {:.1} GiB; Linux {}\ngovernor {}, isolated processors: {}, huge pages for shared \
             memory: {}",
            self.processor,
            self.processors,
            if self.hypervisor { " of a virtual machine" } else { "" },
            self.memory_bytes as f64 / (1_u64 << 30) as f64,
            self.kernel,
            self.governor.as_deref().unwrap_or("unknown"),
            or(&self.isolated, "none"),
            self.huge_pages,
        )
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let meminfo = read("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
