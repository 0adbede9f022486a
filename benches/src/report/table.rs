//! The table for people.

use super::{Against, Better, Measurement};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Shows measurements, one a row.
#[must_use]
pub fn table(results: &[Measurement]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["suite", "measure", "unit", "value", "±", "against", "its value", "ratio", "goal", ""]);
    for result in results {
        let against = result.against.as_ref();
        let text = |of: fn(&Against) -> String| against.map(of).unwrap_or_default();
        table.add_row([
            result.suite.clone(),
            result.name.clone(),
            result.unit.clone(),
            number(result.value.median),
            format!("{:.0} %", result.value.spread_percent()),
            text(|a| a.name.clone()),
            text(|a| number(a.value.median)),
            text(|a| format!("{:.2} ({:.2}–{:.2})", a.ratio.median, a.ratio.least, a.ratio.most)),
            against.and_then(|a| a.goal).map(|goal| goal_text(result.better, goal)).unwrap_or_default(),
            against.and_then(|a| verdict(result.better, a)).unwrap_or_default().to_owned(),
        ]);
    }
    for column in [3, 4, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn goal_text(better: Better, goal: f64) -> String {
    format!("{} {goal}", if better == Better::Lower { "≤" } else { "≥" })
}

fn verdict(better: Better, against: &Against) -> Option<&'static str> {
    let reached = better.reaches(against.ratio.median, against.goal?);
    Some(if reached { "reached" } else { "missed" })
}

/// Four significant digits.
pub(crate) fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [12.3456, 0.012_345, 1_234_567.0, 0.0].map(number);
        assert_eq!(shown, ["12.35", "0.01235", "1234567", "0"]);
    }

    #[test]
    fn a_row_says_whether_the_goal_is_reached() {
        let row = |better, ratio| {
            let measured = Measurement::new("s", "m", "ns", better, vec![ratio]);
            table(&[measured.against(Kind::Floor, "floor", vec![1.0], Some(2.0))])
        };
        assert!(row(Better::Lower, 1.9).contains("reached") && row(Better::Lower, 2.1).contains("missed"));
        assert!(row(Better::Higher, 2.1).contains("reached") && row(Better::Higher, 1.9).contains("missed"));
        assert!(row(Better::Lower, 1.9).contains("1.90 (1.90–1.90)"));
    }
}
