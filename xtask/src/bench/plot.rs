//! Plots of tables of `docs/performance.md`, drawn from the page itself: `docs/plots/NAME.svg`.

use super::page;
use crate::process;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fs;

/// One plot of a table: a ratio over the number of ranks, both on logarithmic axes.
struct Plot {
    /// Section of the table.
    section: &'static str,
    title: &'static str,
    series: SeriesOf,
}

/// What the lines of a plot are.
enum SeriesOf {
    /// Columns with these headers.
    Columns(&'static [&'static str]),
    /// Rows with the same text in the first column, and the numbers in another.
    Rows { of: &'static str, only: Option<(&'static str, &'static str)>, value: &'static str },
}

/// Name and points of a line.
type Line = (String, Vec<(f64, f64)>);

const LAUNCHERS: &[&str] =
    &["pmi-host ÷ floor", "Hydra 5 ÷ floor", "Hydra 4 ÷ floor", "Intel ÷ floor"];
const WIRE: SeriesOf = SeriesOf::Rows {
    of: "operation",
    only: Some(("value, bytes", "64")),
    value: "pmi-host ÷ floor",
};
const INIT: SeriesOf = SeriesOf::Rows { of: "figure", only: None, value: "÷ Hydra 5" };

const PLOTS: &[Plot] = &[
    Plot {
        section: "launch",
        title: "/bin/true, time ÷ spawn and wait",
        series: SeriesOf::Columns(LAUNCHERS),
    },
    Plot {
        section: "launch-busy",
        title: "/bin/true on a busy machine, time ÷ spawn and wait",
        series: SeriesOf::Columns(LAUNCHERS),
    },
    Plot { section: "init", title: "Initialization, time ÷ Hydra 5", series: INIT },
    Plot {
        section: "init-busy",
        title: "Initialization on a busy machine, time ÷ Hydra 5",
        series: INIT,
    },
    Plot { section: "kvs", title: "Operations of 64 bytes, time ÷ floor", series: WIRE },
];

/// Draws the plots of all tables of the page.
///
/// # Errors
///
/// The page cannot be read, or a file not written.
pub(super) fn write_all() -> Result<(), String> {
    let text = page::read()?;
    let directory = process::root().join(DIRECTORY);
    fs::create_dir_all(&directory).map_err(|error| format!("{DIRECTORY}: {error}"))?;
    for plot in PLOTS {
        if let Some(svg) = plot.draw(&text)? {
            let path = directory.join(format!("{}.svg", plot.section));
            fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

impl Plot {
    /// The plot as SVG; `None` while the table is empty.
    fn draw(&self, text: &str) -> Result<Option<String>, String> {
        let Some((header, rows)) = page::rows(text, self.section) else { return Ok(None) };
        let lines = self.series.lines(&header, &rows)?;
        let mut svg = String::new();
        self.draw_lines(&lines, &mut svg).map_err(|error| format!("{}: {error}", self.section))?;
        Ok(Some(svg))
    }

    fn draw_lines(
        &self,
        lines: &[Line],
        svg: &mut String,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1.0, f64::max);
        let least = points().map(|point| point.1).fold(1.0, f64::min);
        let root = SVGBackend::with_string(svg, (760, 380)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 18))
            .margin(10)
            .margin_right(190)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(
                (1.0..most(|point| point.0) * 1.1).log_scale().base(2.0),
                (least * 0.9..most(|point| point.1) * 1.1).log_scale().base(2.0),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("ranks")
            .x_label_formatter(&|ranks| format!("{ranks:.0}"))
            .y_label_formatter(&|ratio| format!("{ratio:.2}"))
            .label_style(("sans-serif", 13))
            .draw()?;
        let right = most(|point| point.0) * 1.1;
        chart.draw_series(LineSeries::new([(1.0, 1.0), (right, 1.0)], BLACK.mix(0.6)))?;
        for (index, (name, points)) in lines.iter().enumerate() {
            let color = COLORS.get(index).copied().unwrap_or(BLACK);
            chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
            chart.draw_series(points.iter().map(|at| Circle::new(*at, 3, color.filled())))?;
            let place = 60 + 22 * i32::try_from(index)?;
            let style = ("sans-serif", 13).into_font().color(&color);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Circle::new((582, place), 4, color.filled()))?;
            root.draw(&Text::new(name.as_str(), (592, place), style))?;
        }
        root.present()?;
        Ok(())
    }
}

impl SeriesOf {
    fn lines(&self, header: &[&str], rows: &[Vec<&str>]) -> Result<Vec<Line>, String> {
        let column = |name: &str| {
            let found = header.iter().position(|one| *one == name);
            found.ok_or_else(|| format!("there is no column {name:?} to plot"))
        };
        let ranks = column("ranks")?;
        let number = |row: &Vec<&str>, at: usize| row.get(at)?.parse::<f64>().ok();
        let point = |row: &Vec<&str>, at| Some((number(row, ranks)?, number(row, at)?));
        match self {
            Self::Columns(names) => {
                let line = |name: &&str| {
                    let at = column(name)?;
                    let points = rows.iter().filter_map(|row| point(row, at)).collect();
                    Ok((name.split(" ÷").next().unwrap_or(name).to_owned(), points))
                };
                names.iter().map(line).collect()
            }
            Self::Rows { of, only, value } => {
                let (of, value) = (column(of)?, column(value)?);
                let only = only.map(|(name, text)| Ok::<_, String>((column(name)?, text)));
                let only = only.transpose()?;
                let mut lines: Vec<Line> = Vec::new();
                for row in rows {
                    if only.is_some_and(|(at, text)| row.get(at) != Some(&text)) {
                        continue;
                    }
                    let (Some(name), Some(point)) = (row.get(of), point(row, value)) else {
                        continue;
                    };
                    match lines.iter_mut().find(|(line, _)| line == name) {
                        Some((_, points)) => points.push(point),
                        None => lines.push(((*name).to_owned(), vec![point])),
                    }
                }
                Ok(lines)
            }
        }
    }
}

/// Dark enough for text on white, and distinct for people who see fewer colors.
const COLORS: [RGBColor; 4] =
    [RGBColor(0, 90, 181), RGBColor(200, 80, 0), RGBColor(0, 125, 85), RGBColor(110, 110, 110)];

const DIRECTORY: &str = "docs/plots";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_those_of_the_tables() {
        let text = page::read().unwrap();
        for plot in PLOTS {
            let path = process::root().join(DIRECTORY).join(format!("{}.svg", plot.section));
            let written = fs::read_to_string(&path).ok();
            let how = "run `cargo xtask bench --plot`";
            assert!(plot.draw(&text).unwrap() == written, "{}: {how}", path.display());
        }
    }

    #[test]
    fn lines_are_columns_or_the_rows_of_one_name() {
        let header = ["figure", "ranks", "a ÷ floor", "b ÷ floor"];
        let rows = [vec!["x", "1", "2", "3"], vec!["y", "8", "–", "4"], vec!["x", "8", "5", "6"]];
        let columns = SeriesOf::Columns(&["a ÷ floor", "b ÷ floor"]);
        let a = ("a".to_owned(), vec![(1.0, 2.0), (8.0, 5.0)]);
        let b = ("b".to_owned(), vec![(1.0, 3.0), (8.0, 4.0), (8.0, 6.0)]);
        assert_eq!(columns.lines(&header, &rows).unwrap(), [a.clone(), b]);
        let named = SeriesOf::Rows { of: "figure", only: None, value: "a ÷ floor" };
        assert_eq!(named.lines(&header, &rows).unwrap(), [("x".to_owned(), a.1)]);
        assert!(SeriesOf::Columns(&["c"]).lines(&header, &rows).is_err());
    }
}
