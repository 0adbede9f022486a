//! Both kinds of huge pages, where the test may change the machine's settings; what is left without them, everywhere.

use super::*;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const BYTES: usize = 4 << 20;

/// A setting of the machine that is put back afterwards.
struct Setting(&'static str, String);

impl Setting {
    /// `None` when this machine does not let the test change it.
    fn change(path: &'static str, to: &str) -> Option<Self> {
        let before = std::fs::read_to_string(path).ok()?;
        let before = match before.split_once('[') {
            Some((_, rest)) => rest.split_once(']')?.0.to_owned(),
            None => before.trim().to_owned(),
        };
        let setting = Self(path, before);
        std::fs::write(path, to).ok().map(|()| setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        std::fs::write(self.0, &self.1).unwrap();
    }
}

/// What smaps says of the mapping of this name under this word.
fn smaps(name: &str, word: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, from) = text.split_once(&format!("/memfd:{name}")).expect("it is mapped");
    let line = from.lines().find_map(|line| line.strip_prefix(word)).expect("a word of smaps");
    line.trim_start_matches(':').trim().to_owned()
}

fn touch(map: &Mapping) {
    (0..map.len() / 4096).for_each(|page| map.word(page * 4096).store(page as u32, Ordering::Relaxed));
}

fn has_contents(map: &Mapping) -> bool {
    (0..map.len() / 4096).all(|page| map.word(page * 4096).load(Ordering::Relaxed) == page as u32)
}

#[test]
fn what_is_not_to_be_had_or_not_allowed_is_done_without() {
    let (map, pages) = create("pages-none", BYTES, HugePages::None).unwrap();
    assert_eq!((pages, smaps("pages-none", "KernelPageSize").as_str()), (Pages::Standard, "4 kB"));
    touch(&map);
    assert!(has_contents(&map));
    // No machine has a TiB reserved.
    let (map, pages) = create("pages-tib", 1 << 40, HugePages::Auto).unwrap();
    assert_ne!(pages, Pages::Huge);
    assert_eq!(map.len(), 1 << 40);
}

#[test]
fn huge_pages_are_used_where_they_are_to_be_had() {
    let reserved = std::fs::read_to_string(RESERVED).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let more = reserved.map(|n| (n + 4).to_string()).unwrap_or_default();
    match Setting::change(RESERVED, &more) {
        Some(_back) => reserved_ones_are_taken(),
        None => println!("reserved huge pages are not tested: this machine lets nobody here reserve any"),
    }
    match Setting::change(SHMEM_ENABLED, "advise") {
        Some(_back) => transparent_ones_are_asked_for(),
        None => println!("transparent huge pages are not tested: this machine lets nobody here turn them on"),
    }
}

fn reserved_ones_are_taken() {
    let until = Instant::now() + Duration::from_secs(10);
    let map = loop {
        // Others on this machine may have them for a moment.
        match create("pages-huge", BYTES - 4096, HugePages::Auto).unwrap() {
            (map, Pages::Huge) => break map,
            (_, pages) => assert!(Instant::now() < until, "got pages {pages}"),
        }
        std::thread::yield_now();
    };
    assert_eq!((map.len(), smaps("pages-huge", "KernelPageSize").as_str()), (BYTES, "2048 kB"));
    touch(&map);
    let there = Mapping::attach(map.duplicate_fd().unwrap()).unwrap();
    assert!(has_contents(&there));
    assert_ne!(create("pages-not", BYTES, HugePages::Transparent).unwrap().1, Pages::Huge);
}

fn transparent_ones_are_asked_for() {
    let (map, pages) = create("pages-thp", BYTES, HugePages::Transparent).unwrap();
    assert_eq!(pages, Pages::Transparent);
    touch(&map);
    assert!(has_contents(&map));
    // How many it gets is the kernel's affair.
    let flags = smaps("pages-thp", "VmFlags");
    assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
}
