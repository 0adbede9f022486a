//! Relative paths of a topology's arguments become absolute.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The real, absolute folder that `file` stands in; the working folder for what stands in none, such as a pipe.
pub(super) fn folder_of(file: &Path) -> io::Result<PathBuf> {
    let here = Path::new(".");
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = parent.unwrap_or(here).canonicalize()?;
    let is_stream = folder.starts_with("/dev") || folder.starts_with("/proc") || !file.metadata()?.is_file();
    let folder = if is_stream { here.canonicalize()? } else { folder };
    if folder.to_str().is_none() {
        let message = format!("the folder's name {} is no UTF-8 text", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
    }
    Ok(folder)
}

/// `path` seen from `folder`, which is real, absolute and UTF-8; `-` stays.
///
/// Leading `..` are taken off by text, which is exact because `folder` has no symbolic link in it. Later ones stay.
pub(super) fn absolute(folder: &Path, path: &str) -> String {
    if path == "-" || Path::new(path).is_absolute() {
        return path.to_owned();
    }
    let mut base = folder.to_owned();
    let mut rest = Path::new(path).components();
    let rest = loop {
        let ahead = rest.clone();
        match rest.next() {
            Some(Component::ParentDir) => _ = base.pop(),
            Some(Component::CurDir) => {}
            _ => break ahead,
        }
    };
    base.join(rest.as_path()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_stands_in_the_working_folder() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        for stream in ["/dev/null", "/proc/self/stat", "Cargo.toml"] {
            assert_eq!(folder_of(Path::new(stream)).unwrap(), here, "{stream}");
        }
        assert_eq!(folder_of(Path::new("src/lib.rs")).unwrap(), here.join("src"));
    }

    #[test]
    fn paths_become_absolute() {
        let folder = Path::new("/srv/egret/examples");
        assert_eq!(absolute(folder, "book.txt"), "/srv/egret/examples/book.txt");
        assert_eq!(absolute(folder, "../../docs/*.md"), "/srv/docs/*.md");
        assert_eq!(absolute(folder, "./a/../b"), "/srv/egret/examples/a/../b");
        assert_eq!(absolute(folder, "../../../../../x"), "/x");
        assert_eq!(absolute(folder, "/etc/hosts"), "/etc/hosts");
        assert_eq!(absolute(folder, "-"), "-");
    }
}
