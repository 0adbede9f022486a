//! The interval log of HdrHistogram (`.hlog`): a histogram for each second.

use super::Interval;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The column names that HdrHistogram's own reader expects.
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";
/// Values are nanoseconds; the log's `Interval_Max` is in milliseconds, as is usual.
const NS_IN_MAX: f64 = 1e6;

/// Writes a log; its time of writing is noted as its start, for people.
pub(super) fn write(path: &Path, intervals: &[Interval]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut text = Vec::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[egret-bench: nanoseconds from the intended emission of each tuple to its execution]")
        .with_start_time(SystemTime::now())
        .with_max_value_divisor(NS_IN_MAX)
        .begin_log_with(&mut text, &mut serializer)?;
    for Interval { start_ns, length_ns, histogram } in intervals {
        let (start, length) = (Duration::from_nanos(*start_ns), Duration::from_nanos(*length_ns));
        log.write_histogram(histogram, start, length, None)
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    // The writer has no legend; it belongs before the first interval.
    let text = String::from_utf8_lossy(&text);
    let mut legend = Some(LEGEND);
    for line in text.lines() {
        if !line.starts_with('#')
            && let Some(legend) = legend.take()
        {
            writeln!(file, "{legend}")?;
        }
        writeln!(file, "{line}")?;
    }
    file.flush()
}

/// Reads a log.
///
/// # Errors
/// When it cannot be read or is none.
pub fn read(path: &Path) -> Result<Vec<Interval>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The crate's reader knows no legend.
    let text = text.replace(&format!("{LEGEND}\n"), "");
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry {
            Ok(LogEntry::Interval(interval)) => {
                let bytes = STANDARD.decode(interval.encoded_histogram())?;
                let histogram = Deserializer::new().deserialize(&mut bytes.as_slice());
                let histogram = histogram
                    .map_err(|error| anyhow::anyhow!("{}: no histogram: {error}", path.display()))?;
                intervals.push(Interval {
                    start_ns: interval.start_timestamp().as_nanos() as u64,
                    length_ns: interval.duration().as_nanos() as u64,
                    histogram,
                });
            }
            Ok(_) => {}
            Err(error) => bail!("{}: no interval log: {error:?}", path.display()),
        }
    }
    Ok(intervals)
}

#[cfg(test)]
mod tests {
    use super::super::{Recorder, total};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hlog");
        let mut recorder = Recorder::new();
        for n in 0..3000_u64 {
            let sent = 5_000_000_000 + n * 1_000_000;
            recorder.record(sent, sent + 1000 + n);
        }
        recorder.write(&path).unwrap();
        let intervals = read(&path).unwrap();
        assert_eq!(intervals.len(), 3);
        assert_eq!(intervals.iter().map(|i| i.start_ns / 1_000_000_000).collect::<Vec<_>>(), [0, 1, 2]);
        let total = total(&intervals).unwrap();
        assert_eq!(total.len(), 3000);
        assert!(total.value_at_quantile(0.5).abs_diff(2500) <= 3, "{}", total.value_at_quantile(0.5));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\n\"StartTimestamp\",\"Interval_Length\""), "{text}");
    }

    #[test]
    fn another_file_is_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hlog");
        assert!(read(&path).is_err());
        std::fs::write(&path, "once upon a time\n").unwrap();
        assert!(read(&path).is_err());
    }
}
