//! The percentile distribution of HdrHistogram (`.hgrm`), as its Java original prints it.

use hdrhistogram::Histogram;
use std::fmt::Write;

/// Lines for each halving of the distance to 100 %.
const TICKS_PER_HALF: u32 = 5;
/// Values are shown in microseconds.
const NS_PER_UNIT: f64 = 1e3;

/// The text of a histogram of nanoseconds; its values are in microseconds.
#[must_use]
pub fn text(histogram: &Histogram<u64>) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        let (value, quantile) = (step.value_iterated_to() as f64 / NS_PER_UNIT, step.quantile_iterated_to());
        let count = histogram.count_between(0, step.value_iterated_to());
        let _ = write!(text, "{value:12.3} {quantile:2.12} {count:10}");
        let _ =
            if quantile < 1.0 { writeln!(text, " {:14.2}", 1.0 / (1.0 - quantile)) } else { writeln!(text) };
    }
    let unit = |value: f64| value / NS_PER_UNIT;
    let (mean, deviation) = (unit(histogram.mean()), unit(histogram.stdev()));
    let (max, total) = (unit(histogram.max() as f64), histogram.len());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {total:12}]");
    let (buckets, sub) = (histogram.buckets(), 2048);
    let _ = writeln!(text, "#[Buckets = {buckets:12}, SubBuckets     = {sub:12}]");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::histogram;

    #[test]
    fn percentiles_rise_to_one_and_the_footer_sums_up() {
        let mut all = histogram();
        (1..=1000_u64).for_each(|us| all.record(us * 1000).unwrap());
        let text = text(&all);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.windows(2).all(|w| w[0][0] <= w[1][0] && w[0][1] <= w[1][1] && w[0][2] <= w[1][2]));
        let half = rows.iter().find(|row| row[1] >= 0.5).unwrap();
        assert!((499.0..=501.0).contains(&half[0]), "{half:?}");
        assert_eq!(rows.last().unwrap()[1..], [1.0, 1000.0]);
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }
}
