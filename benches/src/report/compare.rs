//! Two reports compared: what became worse.

use super::table::number;
use super::{Measurement, Report};
use crate::sample::Stat;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// Which of a measurement's numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The values: for two reports of one machine.
    Value,
    /// The ratios to what was measured in turn with them, for reports of machines that differ, or of a busy one; what has no
    /// ratio is left out.
    Ratio,
}

/// What a comparison came to.
pub struct Comparison {
    /// As a table, and what to know before believing it.
    pub text: String,
    /// What regressed, a line each.
    pub regressed: Vec<String>,
}

/// Compares what both reports have. A measurement regressed when its median is worse by more than `max_regress_percent`.
///
/// # Errors
/// When the reports have nothing in common.
pub fn compare(old: &Report, new: &Report, max_regress_percent: f64, by: By) -> Result<Comparison> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["measure", "unit", "old", "new", "worse by", ""]);
    let (mut regressed, mut compared) = (Vec::new(), 0);
    for after in &new.results {
        let before = old.results.iter().find(|before| before.key() == after.key());
        let Some((before, now)) = before.and_then(|b| Some((stat(b, by)?, stat(after, by)?))) else {
            continue;
        };
        compared += 1;
        let worse = after.better.worse_percent(before.median, now.median);
        let has_regressed = worse > max_regress_percent;
        if has_regressed {
            regressed.push(format!(
                "{} is worse by {worse:.1} %: {} before, {} now",
                after.key(),
                number(before.median),
                number(now.median)
            ));
        }
        let unit = if by == By::Ratio { "ratio" } else { &after.unit };
        let cells = [after.key(), unit.to_owned(), number(before.median), number(now.median)];
        let verdict = if has_regressed { "regressed" } else { "" };
        table.add_row(cells.into_iter().chain([format!("{worse:+.1} %"), verdict.to_owned()]));
    }
    ensure!(compared > 0, "the two files have no measurement in common");
    let mut text = table.to_string();
    notes(old, new).iter().for_each(|note| text.push_str(&format!("\nnote: {note}")));
    Ok(Comparison { text, regressed })
}

fn stat(of: &Measurement, by: By) -> Option<&Stat> {
    match by {
        By::Value => Some(&of.value),
        By::Ratio => of.against.as_ref().map(|against| &against.ratio),
    }
}

/// What makes the two hard to compare.
fn notes(old: &Report, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if old.machine != new.machine {
        notes.push(format!(
            "the machines differ: {} before, {} now; `--by ratio` depends less on that",
            old.machine.text().replace('\n', ", "),
            new.machine.text().replace('\n', ", ")
        ));
    }
    if old.settings != new.settings {
        notes.push(format!(
            "they were measured differently: {:?} before, {:?} now",
            old.settings, new.settings
        ));
    }
    let missing: Vec<_> = old.results.iter().map(Measurement::key).collect();
    let has = |key: &String| new.results.iter().any(|after| after.key() == *key);
    let missing: Vec<_> = missing.into_iter().filter(|key| !has(key)).collect();
    if !missing.is_empty() {
        notes.push(format!("not measured again: {}", missing.join("; ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::{Better, Settings};
    use super::*;

    fn report(cost: f64, rate: f64, floor: f64) -> Report {
        let settings = Settings { quick: false, runs: 1, affinity: "auto".to_owned(), config: vec![] };
        let cost = Measurement::new("relay", "cost", "ns", Better::Lower, vec![cost]);
        let rate = Measurement::new("relay", "rate", "1/s", Better::Higher, vec![rate]);
        Report::new(settings, vec![cost.against("floor", vec![floor], None), rate])
    }

    fn regressed(old: &Report, new: &Report, by: By) -> Vec<String> {
        compare(old, new, 5.0, by).unwrap().regressed
    }

    #[test]
    fn worse_is_more_of_what_costs_and_less_of_what_is_good() {
        let old = report(100.0, 50.0, 10.0);
        assert!(regressed(&old, &report(104.9, 48.0, 10.0), By::Value).is_empty());
        assert!(regressed(&old, &report(50.0, 500.0, 10.0), By::Value).is_empty());
        let both = regressed(&old, &report(105.1, 47.0, 10.0), By::Value);
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with("relay: cost is worse by 5.1 %: 100.0 before"), "{both:?}");
    }

    #[test]
    fn by_ratio_a_slower_machine_is_no_regression() {
        let old = report(100.0, 50.0, 10.0);
        assert!(regressed(&old, &report(200.0, 25.0, 20.0), By::Ratio).is_empty());
        assert_eq!(regressed(&old, &report(100.0, 50.0, 9.0), By::Ratio).len(), 1);
    }

    #[test]
    fn nothing_in_common_is_an_error_and_less_in_common_is_said() {
        let (old, mut new) = (report(1.0, 1.0, 1.0), report(1.0, 1.0, 1.0));
        new.results.truncate(1);
        assert!(
            compare(&old, &new, 5.0, By::Value).unwrap().text.contains("not measured again: relay: rate")
        );
        new.results.clear();
        assert!(compare(&old, &new, 5.0, By::Value).is_err());
    }

    #[test]
    fn files_are_read_back_and_foreign_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        report(1.0, 2.0, 3.0).write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap().results.len(), 2);
        for text in ["", "{}", "[1]", r#"{"format": "egret-bench", "version": 1}"#] {
            std::fs::write(&path, text).unwrap();
            let error = Report::read(&path).err().unwrap().to_string();
            assert!(error.contains("r.json holds no results"), "{text}: {error}");
        }
        std::fs::write(&path, r#"{"format": "egret-bench", "version": 9}"#).unwrap();
        assert!(Report::read(&path).err().unwrap().to_string().contains("version 9"));
    }
}
