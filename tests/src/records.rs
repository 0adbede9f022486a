//! What the components of the test program wrote down: in one folder, a file for each task, named
//! `COMPONENT.INDEX.TASK`, with a line for each value.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A value that a task wrote down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The value.
    pub value: String,
    /// The component's id.
    pub component: String,
    /// The task's index among the component's tasks, from 0.
    pub index: u32,
    /// The task's id.
    pub task: u32,
}

/// Writes down the values of one task, each at once.
#[derive(Debug)]
pub struct Recorder(File);

impl Recorder {
    /// Opens the task's file in `folder` to append to it: what a task that ran twice wrote twice is there twice.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(folder: impl AsRef<Path>, component: &str, index: u32, task: u32) -> io::Result<Self> {
        let path = folder.as_ref().join(format!("{component}.{index}.{task}"));
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, value: impl std::fmt::Display) -> io::Result<()> {
        self.0.write_all(format!("{value}\n").as_bytes())
    }
}

/// Reads what all tasks wrote, sorted. Whole lines only: a task may be at it still.
///
/// # Panics
/// When the folder cannot be read or holds something else.
#[must_use]
pub fn read(folder: impl AsRef<Path>) -> Vec<Record> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let parts: Vec<_> = name.rsplitn(3, '.').collect();
        let [task, index, component] = parts[..] else { panic!("{name} is no record") };
        let (task, index) = (task.parse().unwrap(), index.parse().unwrap());
        let text = fs::read_to_string(entry.path()).unwrap();
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let component = component.to_owned();
        records.extend(lines.map(|value| Record {
            value: value.to_owned(),
            component: component.clone(),
            index,
            task,
        }));
    }
    records.sort();
    records
}

/// The values that `component` wrote, sorted.
#[must_use]
pub fn values_of(records: &[Record], component: &str) -> Vec<String> {
    let of_component = records.iter().filter(|record| record.component == component);
    of_component.map(|record| record.value.clone()).collect()
}
