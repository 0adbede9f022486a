//! A text made from real files, and its words counted by another program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDERS: [&str; 2] = ["/usr/share/common-licenses", "/usr/share/doc"];

/// Splits by the definition that the topology uses, Unicode's White_Space, said code point by code point: what
/// Python's own `split` takes for space is a little more.
const COUNT: &str = r"
import collections, re, sys
word = re.compile('[^\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
counts = collections.Counter()
with open(sys.argv[1], encoding='utf-8', newline='\n') as lines:
    for line in lines:
        counts.update(word.findall(line))
with open(sys.argv[2], 'w', encoding='utf-8', newline='\n') as out:
    for item in counts.items():
        out.write('%s\t%d\n' % item)
";

/// Writes `bytes` bytes, and up to the end of that line, to `path`: every file below `/usr/share/common-licenses` and
/// `/usr/share/doc` that is UTF-8, unpacked where it is packed, over and over.
///
/// # Panics
/// When the files cannot be written, or there is nothing to read.
pub fn write_text(path: &Path, bytes: u64) {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| collect(Path::new(folder), &mut files));
    let mut out = BufWriter::new(File::create(path).unwrap());
    let mut missing = bytes;
    while missing > 0 {
        let before = missing;
        for text in files.iter().filter_map(|file| read(file)) {
            let whole = &text[..text.len().min(usize::try_from(missing).unwrap())];
            let end = text.as_bytes()[whole.len()..].iter().position(|b| *b == b'\n');
            let part = &text.as_bytes()[..end.map_or(text.len(), |end| whole.len() + end)];
            out.write_all(part).unwrap();
            out.write_all(b"\n").unwrap();
            missing = missing.saturating_sub(part.len() as u64 + 1);
            if missing == 0 {
                break;
            }
        }
        assert!(missing < before, "there is text below {FOLDERS:?}");
    }
    out.flush().unwrap();
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        match fs::metadata(&path) {
            Ok(kind) if kind.is_file() => files.push(path),
            Ok(kind) if kind.is_dir() && !path.is_symlink() => collect(&path, files),
            _ => {}
        }
    }
}

fn read(path: &Path) -> Option<String> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return fs::read_to_string(path).ok();
    }
    let unpacked = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip is installed");
    unpacked.status.success().then(|| String::from_utf8(unpacked.stdout).ok())?
}

/// How often each word stands in the text, counted by a Python program.
///
/// # Panics
/// When the program fails.
#[must_use]
pub fn count_independently(text: &Path) -> BTreeMap<String, u64> {
    let counts = text.with_extension("counts");
    let output = Command::new("python3").args(["-c", COUNT]).arg(text).arg(&counts).output();
    let output = output.expect("python3 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read_counts(&counts)
}

/// Reads lines of a word, a tab and a number.
///
/// # Panics
/// When the file holds anything else, or a word twice.
#[must_use]
pub fn read_counts(path: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let mut counts = BTreeMap::new();
    for line in text.split_terminator('\n') {
        let (word, count) = line.split_once('\t').unwrap_or_else(|| panic!("no tab in {line:?}"));
        let before = counts.insert(word.to_owned(), count.parse().unwrap());
        assert_eq!(before, None, "{word:?} is there twice");
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_program_splits_at_the_same_characters() {
        let near_misses = "\u{200b}\u{180e}\u{1c}\u{1d}\u{1e}\u{1f}\u{feff}\u{85}";
        let all: String = (0..0x3100).filter_map(char::from_u32).filter(|c| *c != '\n').collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, format!("{all}\na{near_misses}b\r\n\n")).unwrap();
        let mut expected = BTreeMap::new();
        for word in fs::read_to_string(&path).unwrap().split(char::is_whitespace).filter(|w| !w.is_empty()) {
            *expected.entry(word.to_owned()).or_default() += 1;
        }
        assert_eq!(count_independently(&path), expected);
    }

    #[test]
    fn a_text_has_the_size_asked_for_and_ends_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        write_text(&path, 100_000);
        let text = fs::read_to_string(&path).unwrap();
        assert!((100_000..200_000).contains(&text.len()) && text.ends_with('\n'));
    }
}
