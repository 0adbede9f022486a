//! A percentile plot as SVG: latency over percentile, both as logarithms, so that each nine is as wide as the next.

use hdrhistogram::Histogram;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Nines on the horizontal axis: up to 99.999 %.
const NINES: f64 = 5.0;
/// Told apart also by people who do not see red and green as different (Okabe, Ito 2008).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A named histogram of nanoseconds.
pub type Line<'a> = (&'a str, &'a Histogram<u64>);

/// The plot.
#[must_use]
pub fn plot(title: &str, lines: &[Line<'_>]) -> String {
    let most = lines.iter().map(|(_, h)| h.max()).max().unwrap_or(1).max(10) as f64;
    let least = lines.iter().map(|(_, h)| h.min()).min().unwrap_or(1).max(1) as f64;
    let axes = Axes { low: least.log10().floor(), high: most.log10().ceil() };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{}</text>\n",
        escape(title)
    );
    axes.draw(&mut svg);
    for (index, (name, histogram)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: String = histogram
            .iter_quantiles(10)
            .map(|step| axes.point(step.quantile_iterated_to(), step.value_iterated_to() as f64))
            .fold(String::new(), |mut all, (x, y)| {
                let _ = write!(all, "{x:.1},{y:.1} ");
                all
            });
        let y = TOP + 20.0 * (index as f64 + 1.0);
        let x = WIDTH - RIGHT + 15.0;
        let _ = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n\
             <text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{}</text>\n",
            points.trim_end(),
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Powers of ten at both ends of the vertical axis.
struct Axes {
    low: f64,
    high: f64,
}

impl Axes {
    fn point(&self, quantile: f64, ns: f64) -> (f64, f64) {
        let nines = -(1.0 - quantile).max(10_f64.powf(-NINES)).log10();
        let x = LEFT + (WIDTH - LEFT - RIGHT) * nines / NINES;
        let share = (ns.max(1.0).log10() - self.low) / (self.high - self.low);
        (x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share)
    }

    fn draw(&self, svg: &mut String) {
        for power in self.low as i32..=self.high as i32 {
            let (left, y) = self.point(0.0, 10_f64.powi(power));
            let right = WIDTH - RIGHT;
            let _ = write!(
                svg,
                "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                left - 8.0,
                y + 4.0,
                duration(power)
            );
        }
        for nines in 0..=NINES as i32 {
            let quantile = 1.0 - 10_f64.powi(-nines);
            let (x, _) = self.point(quantile, 1.0);
            let label = format!("{:.*} %", (nines - 2).max(0) as usize, quantile * 100.0);
            let bottom = HEIGHT - BOTTOM;
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>\n",
                bottom + 20.0
            );
        }
    }
}

/// A power of ten of nanoseconds.
fn duration(power: i32) -> String {
    let unit = ["ns", "µs", "ms", "s"][(power / 3).clamp(0, 3) as usize];
    format!("{} {unit}", 10_u64.pow((power - 3 * (power / 3).clamp(0, 3)).max(0) as u32))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::histogram;

    #[test]
    fn each_histogram_is_a_line_inside_the_frame() {
        let mut all = histogram();
        (1..=100_000_u64).for_each(|us| all.record(us * 10).unwrap());
        let svg = plot("a < b", &[("one", &all), ("two", &all)]);
        assert!(svg.contains("a &lt; b") && svg.matches("<polyline").count() == 2, "{svg}");
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y), "{point}");
        }
        assert_eq!([duration(0), duration(4), duration(6), duration(10)], ["1 ns", "10 µs", "1 ms", "10 s"]);
    }
}
