//! Two reports compared: what became worse.

use super::table::number;
use super::{Against, Kind, Measurement, Report};
use crate::sample::Stat;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// Which of a measurement's numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The values: for two reports of one machine.
    Value,
    /// The ratios to the floors that were measured in turn with them, for reports of machines that differ, or of a busy one.
    /// What is held against Egret itself is compared by value, and what is held against nothing is left out.
    Ratio,
}

/// What a comparison came to.
pub struct Comparison {
    /// As a table, and what to know before believing it.
    pub text: String,
    /// What regressed, a line each.
    pub regressed: Vec<String>,
    /// What only the old report has, or has a floor for, a line each.
    pub missing: Vec<String>,
}

/// Compares what both reports have. A measurement regressed when its median is worse by more than `max_regress_percent`.
///
/// # Errors
/// When the reports have nothing in common, when a measurement is not of the same unit and direction in both, and when its
/// old median is not positive.
pub fn compare(old: &Report, new: &Report, max_regress_percent: f64, by: By) -> Result<Comparison> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["measure", "unit", "old", "new", "worse by", ""]);
    let (mut regressed, mut missing, mut compared) = (Vec::new(), Vec::new(), 0);
    for before in &old.results {
        let key = before.key();
        let Some(after) = new.results.iter().find(|after| after.key() == key) else {
            missing.push(format!("{key} was not measured again"));
            continue;
        };
        ensure!(
            (&before.unit, before.better) == (&after.unit, after.better),
            "{key} is in {}, {:?} is better, before, and in {}, {:?} is better, now",
            before.unit,
            before.better,
            after.unit,
            after.better
        );
        let by = if is_sibling(before) || is_sibling(after) { By::Value } else { by };
        let Some(was) = stat(before, by) else { continue };
        let Some(is) = stat(after, by) else {
            missing.push(format!("{key} has no floor any more"));
            continue;
        };
        compared += 1;
        let worse = after.better.worse_percent(was.median, is.median).with_context(|| key.clone())?;
        let (was, is) = (number(was.median), number(is.median));
        let has_regressed = worse > max_regress_percent;
        if has_regressed {
            regressed.push(format!("{key} is worse by {worse:.1} %: {was} before, {is} now"));
        }
        let unit = if by == By::Ratio { "ratio" } else { &after.unit };
        let verdict = if has_regressed { "regressed" } else { "" };
        table.add_row([key, unit.to_owned(), was, is, format!("{worse:+.1} %"), verdict.to_owned()]);
    }
    ensure!(compared > 0, "the two files have no measurement in common");
    let mut text = table.to_string();
    notes(old, new).iter().for_each(|note| text.push_str(&format!("\nnote: {note}")));
    Ok(Comparison { text, regressed, missing })
}

fn is_sibling(measured: &Measurement) -> bool {
    measured.against.as_ref().is_some_and(|against| against.kind == Kind::Sibling)
}

fn stat(of: &Measurement, by: By) -> Option<&Stat> {
    match by {
        By::Value => Some(&of.value),
        By::Ratio => of.against.as_ref().map(|Against { ratio, .. }| ratio),
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
        Report::new(settings, vec![cost.against(Kind::Floor, "floor", vec![floor], None), rate])
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
    fn when_nothing_is_left_of_what_is_good_that_is_worse_than_any_percentage() {
        let old = report(100.0, 50.0, 10.0);
        for rate in [0.0, -1.0] {
            let lines = compare(&old, &report(100.0, rate, 10.0), 1e9, By::Value).unwrap().regressed;
            assert!(lines[0].starts_with("relay: rate is worse by inf %"), "{lines:?}");
        }
        for (cost, rate, name) in [(0.0, 1.0, "cost"), (1.0, -1.0, "rate"), (1.0, f64::NAN, "rate")] {
            let error = compare(&report(cost, rate, 1.0), &old, 5.0, By::Value).err().unwrap();
            assert_eq!(error.to_string(), format!("relay: {name}"));
        }
    }

    #[test]
    fn what_is_gone_is_missing_and_nothing_in_common_is_an_error() {
        let (old, mut new) = (report(1.0, 1.0, 1.0), report(1.0, 1.0, 1.0));
        assert!(compare(&old, &new, 5.0, By::Value).unwrap().missing.is_empty());
        new.results.truncate(1);
        let compared = compare(&old, &new, 5.0, By::Value).unwrap();
        assert_eq!(compared.missing, ["relay: rate was not measured again"]);
        assert!(compare(&new, &old, 5.0, By::Value).unwrap().missing.is_empty(), "what is new is not");
        new.results.clear();
        assert!(compare(&old, &new, 5.0, By::Value).is_err());
    }

    #[test]
    fn by_ratio_a_lost_floor_is_missing() {
        let (mut old, mut new) = (report(1.0, 1.0, 1.0), report(1.0, 1.0, 1.0));
        for report in [&mut old, &mut new] {
            let other = Measurement::new("relay", "other", "ns", Better::Lower, vec![1.0]);
            report.results.push(other.against(Kind::Floor, "floor", vec![1.0], None));
        }
        new.results[0].against = None;
        assert!(compare(&old, &new, 5.0, By::Value).unwrap().missing.is_empty());
        let compared = compare(&old, &new, 5.0, By::Ratio).unwrap();
        assert_eq!(compared.missing, ["relay: cost has no floor any more"]);
    }

    #[test]
    fn another_unit_or_direction_is_an_error() {
        let old = report(1.0, 1.0, 1.0);
        let mut new = report(1.0, 1.0, 1.0);
        new.results[1].unit = "1/h".to_owned();
        let error = compare(&old, &new, 5.0, By::Value).err().unwrap().to_string();
        assert!(error.contains("relay: rate is in 1/s, Higher is better, before"), "{error}");
        new = report(1.0, 1.0, 1.0);
        new.results[0].better = Better::Higher;
        assert!(compare(&old, &new, 5.0, By::Ratio).is_err());
    }

    #[test]
    fn what_is_held_against_egret_itself_is_compared_by_value() {
        let sibling = |kind, cost, untracked| {
            let mut report = report(1.0, 1.0, 1.0);
            let tracked = Measurement::new("ack", "tracked", "ns", Better::Lower, vec![cost]);
            report.results.push(tracked.against(kind, "untracked", vec![untracked], None));
            report
        };
        let new = sibling(Kind::Sibling, 100.0, 50.0);
        // A file that does not know of siblings is old, and the new one tells.
        for kind in [Kind::Floor, Kind::Sibling] {
            assert!(regressed(&sibling(kind, 100.0, 80.0), &new, By::Ratio).is_empty());
            let lines = regressed(&sibling(kind, 50.0, 25.0), &new, By::Ratio);
            assert!(lines[0].starts_with("ack: tracked is worse by 100.0 %: 50.00 before"), "{lines:?}");
        }
    }

    #[test]
    fn files_that_do_not_know_of_siblings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        report(1.0, 2.0, 3.0).write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let before = text.replace("\"kind\": \"floor\",", "");
        assert_ne!(before, text);
        std::fs::write(&path, before).unwrap();
        assert_eq!(Report::read(&path).unwrap().results[0].against.as_ref().unwrap().kind, Kind::Floor);
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
