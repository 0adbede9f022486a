//! Which pages a pool is made of: with larger ones fewer misses of the TLB.

use super::map::Mapping;
use crate::plan::{Config, config};
use std::fmt;
use std::io;

/// Says to whom the kernel gives transparent huge pages of shared memory; the word in brackets holds.
const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Which huge pages a pool may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Reserved ones, or transparent ones.
    Auto,
    /// Transparent ones.
    Transparent,
    /// None.
    None,
}

impl HugePages {
    /// What a topology's configuration allows.
    #[must_use]
    pub fn of(settings: &Config) -> Self {
        let is = |word| settings.is(config::HUGE_PAGES, word);
        if is("none") {
            Self::None
        } else if is("transparent") {
            Self::Transparent
        } else {
            Self::Auto
        }
    }
}

/// Which pages a pool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge ones that the administrator has reserved (`vm.nr_hugepages`), all set aside from the start.
    Huge,
    /// Those that the kernel makes huge, as far as it has them.
    Transparent,
    /// Those of the machine.
    Standard,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "reserved, of 2 MiB",
            Self::Transparent => "of 2 MiB where the kernel has them",
            Self::Standard => "of 4 KiB",
        })
    }
}

/// Makes shared memory of the largest pages that are allowed and to be had.
pub(super) fn create(name: &str, bytes: usize, allowed: HugePages) -> io::Result<(Mapping, Pages)> {
    if allowed == HugePages::Auto
        && let Ok(map) = Mapping::create_huge(name, bytes)
    {
        return Ok((map, Pages::Huge));
    }
    let map = Mapping::create(name, bytes)?;
    let transparent = allowed != HugePages::None && gives_to_those_who_ask() && map.advise_huge().is_ok();
    Ok((map, if transparent { Pages::Transparent } else { Pages::Standard }))
}

fn gives_to_those_who_ask() -> bool {
    let text = std::fs::read_to_string(SHMEM_ENABLED).unwrap_or_default();
    ["[advise]", "[always]", "[within_size]", "[force]"].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests;
