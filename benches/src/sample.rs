//! Measuring something several times, in turn with what it is compared to.

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What some work took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// User and system CPU time of all processes, in seconds.
    pub cpu_s: f64,
    /// Time on the clock, in seconds.
    pub elapsed_s: f64,
}

/// The lengths of the two runs that are subtracted, in tuples: so that starting and ending cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Of the short run.
    pub short: u64,
    /// Of the long run.
    pub long: u64,
}

/// What one tuple costs.
#[derive(Clone, Copy, Debug)]
pub struct PerTuple {
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Tuples per second.
    pub rate: f64,
}

impl Lengths {
    /// So many times as long.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        Self { short: self.short * factor, long: self.long * factor }
    }

    /// What each tuple adds: `run` is asked for a run of each length.
    ///
    /// # Errors
    /// What a run gives.
    pub fn measure(self, mut run: impl FnMut(u64) -> Result<Cost>) -> Result<PerTuple> {
        let (few, many) = (run(self.short)?, run(self.long)?);
        let tuples = (self.long - self.short) as f64;
        Ok(PerTuple {
            cpu_ns: (many.cpu_s - few.cpu_s) * 1e9 / tuples,
            rate: tuples / (many.elapsed_s - few.elapsed_s),
        })
    }
}

/// Values of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// All, in the order they were measured.
    pub runs: Vec<f64>,
}

impl Stat {
    /// Of these values.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn of(runs: Vec<f64>) -> Self {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        Self { median: middle, least, most, runs }
    }

    /// Half of the distance from the least to the greatest, in per cent of the median.
    #[must_use]
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median.abs() * 100.0 }
    }

    /// Run by run, this over that.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self::of(self.runs.iter().zip(&other.runs).map(|(a, b)| a / b).collect())
    }
}

/// Calls `one` and `other` in turn, `runs` times each, and changes who is first: what drifts hits both.
///
/// # Errors
/// What a call gives.
pub fn alternate<T, U>(
    runs: usize,
    mut one: impl FnMut() -> Result<T>,
    mut other: impl FnMut() -> Result<U>,
) -> Result<(Vec<T>, Vec<U>)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for run in 0..runs {
        if run % 2 == 0 {
            ones.push(one()?);
            others.push(other()?);
        } else {
            others.push(other()?);
            ones.push(one()?);
        }
    }
    Ok((ones, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        let stat = Stat::of(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!((stat.median, stat.least, stat.most), (3.0, 1.0, 9.0));
        assert_eq!(Stat::of(vec![5.0]).spread_percent(), 0.0);
    }

    #[test]
    fn ratios_are_of_runs_that_stood_side_by_side() {
        let (one, other) = (Stat::of(vec![2.0, 30.0, 4.0]), Stat::of(vec![1.0, 10.0, 2.0]));
        assert_eq!(one.over(&other).runs, [2.0, 3.0, 2.0]);
    }

    #[test]
    fn sides_take_turns() {
        let order = std::cell::RefCell::new(String::new());
        let say = |c: char| {
            order.borrow_mut().push(c);
            anyhow::Ok(())
        };
        alternate(3, || say('a'), || say('b')).unwrap();
        assert_eq!(order.into_inner(), "abbaab");
    }

    #[test]
    fn what_both_lengths_cost_is_subtracted() {
        let run = |n: u64| Ok(Cost { cpu_s: 5.0 + n as f64, elapsed_s: 7.0 + n as f64 / 2.0 });
        let cost = Lengths { short: 10, long: 30 }.measure(run).unwrap();
        assert_eq!((cost.cpu_ns, cost.rate), (1e9, 2.0));
    }
}
