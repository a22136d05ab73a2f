//! The matrix: exchange, verdict and observation; written in three forms, read back, compared, joined.

use super::case::Case;
use super::error::ConformError;
use super::verdict::{Finding, Verdict};
use pmi_host_base::user_file;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Results of a check, in the order of the cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// One row for each case.
    pub(crate) rows: Vec<Row>,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Name of the case.
    pub(crate) case: String,
    /// Short description of the tested exchange.
    pub(crate) tries: String,
    /// Finding of the case.
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

/// Output form of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Columns of text, the only form that can be read back.
    Plain,
    /// One JSON object.
    Json,
    /// One Markdown table.
    Markdown,
}

impl Matrix {
    /// Number of cases with the verdict [`Verdict::Wrong`].
    pub(crate) fn wrong_count(&self) -> usize {
        self.rows.iter().filter(|row| row.finding.verdict == Verdict::Wrong).count()
    }

    /// Renders the whole matrix.
    pub(crate) fn render(&self, form: Form) -> String {
        match form {
            Form::Plain => {
                self.rows.iter().map(Row::plain).chain([format!("# {}\n", self.sum())]).collect()
            }
            Form::Json => self.json(),
            Form::Markdown => self.markdown(),
        }
    }

    /// Number of cases per verdict.
    pub(crate) fn sum(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|row| row.finding.verdict == verdict).count();
        let counts = Verdict::ALL.into_iter().filter(|verdict| count(*verdict) > 0);
        let parts: Vec<String> =
            counts.map(|verdict| format!("{} {verdict}", count(verdict))).collect();
        parts.join(", ")
    }

    /// Reads a matrix in [`Form::Plain`], which lacks the descriptions of the cases.
    ///
    /// # Errors
    ///
    /// [`ConformError::Record`].
    pub(crate) fn read(file: &Path) -> Result<Self, ConformError> {
        let wrong = |why: String| ConformError::Record { file: file.to_owned(), why };
        let text = user_file::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let read = |line: &str| {
            let (case, rest) = line.split_once("  ")?;
            let (verdict, seen) = rest.trim_start().split_once("  ").unwrap_or((rest.trim(), ""));
            let finding = Verdict::from_text(verdict)?.on(seen.trim());
            Some(Row { case: case.to_owned(), tries: String::new(), finding })
        };
        let rows =
            rows.map(|line| read(line).ok_or_else(|| wrong(format!("no verdict in '{line}'"))));
        Ok(Self { rows: rows.collect::<Result<_, _>>()? })
    }

    /// Differences between the verdicts of this matrix and of a recorded one. Cases that only one of them
    /// has are left out: they were not requested, or are not meant to be compared. Observations are not
    /// compared, since they hold process numbers.
    pub(crate) fn differences(&self, recorded: &Self) -> Vec<String> {
        let differs = |row: &Row| {
            let Row { case, finding: Finding { verdict, seen }, .. } = row;
            let old = &recorded.rows.iter().find(|old| old.case == *case)?.finding;
            (old.verdict != *verdict).then(|| {
                format!("{case}: {verdict} ({seen}), recorded as {} ({})", old.verdict, old.seen)
            })
        };
        self.rows.iter().filter_map(differs).collect()
    }

    fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default());
        let rows = rows.collect::<Vec<_>>().join(",\n");
        format!("{{\"wrong\":{},\"cases\":[\n{rows}\n]}}\n", self.wrong_count())
    }

    fn markdown(&self) -> String {
        let mut text = String::from("| exchange | verdict | seen |\n|---|---|---|\n");
        for row in &self.rows {
            let Finding { verdict, seen } = &row.finding;
            let what = if row.tries.is_empty() { &row.case } else { &row.tries };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {what} | {verdict} | {} |", cell(seen));
        }
        text
    }
}

impl Row {
    /// Row for a case that makes no sense after the result of `opening`.
    pub(crate) fn not_tried(case: &Case, opening: &Self) -> Self {
        let finding = opening.finding.verdict.on(not_tried(&opening.case));
        Self { case: case.name.into(), tries: case.tries.into(), finding }
    }

    /// One line that can be read back.
    pub(crate) fn plain(&self) -> String {
        let Self { case, finding: Finding { verdict, seen }, .. } = self;
        let line = format!("{case:<25}  {verdict:<20}  {seen}");
        format!("{}\n", line.trim_end())
    }
}

/// Writes several matrices as one table, a column for each, with the observations below it.
///
/// `tries` returns the description of a case, if there is one.
pub(super) fn join(
    titled: &[(String, Matrix)],
    tries: impl Fn(&str) -> Option<&'static str>,
) -> String {
    let mut cases: Vec<&str> = Vec::new();
    for row in titled.iter().flat_map(|(_, matrix)| &matrix.rows) {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    let titles: Vec<&str> = titled.iter().map(|(title, _)| title.as_str()).collect();
    let mut text = format!("| case | test | {} |\n|---|---|", titles.join(" | "));
    text.push_str(&"---|".repeat(titles.len()));
    text.push('\n');
    for case in cases {
        let verdicts = titled.iter().map(|(_, matrix)| {
            let row = matrix.rows.iter().find(|row| row.case == case);
            row.map_or(String::new(), short)
        });
        let verdicts: Vec<String> = verdicts.collect();
        let what = tries(case).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{case}` | {} | {} |", cell(what), verdicts.join(" | "));
    }
    for (title, matrix) in titled {
        let _ = write!(text, "\n### Findings: {title}\n\n{}.\n\n", matrix.sum());
        let is_worth_reading = |row: &&Row| {
            let Finding { verdict, seen } = &row.finding;
            *verdict != Verdict::AsSpecified && !seen.starts_with(NOT_TRIED)
        };
        for row in matrix.rows.iter().filter(is_worth_reading) {
            let Finding { verdict, seen } = &row.finding;
            let _ = writeln!(text, "- `{}` {verdict}: `{}`", row.case, seen.replace('`', "'"));
        }
    }
    text
}

/// Observation in a row that makes no sense after the result of the case `opening`.
pub(super) fn not_tried(opening: &str) -> String {
    format!("{NOT_TRIED} {opening}")
}

const NOT_TRIED: &str = "not tested after";

/// Short form of a row for a table of many columns: verdicts as specified take little room. For a client
/// the text is its behaviour, preceded by the verdict unless that is as specified.
fn short(row: &Row) -> String {
    let Finding { verdict, seen } = &row.finding;
    let word = match verdict {
        Verdict::AsSpecified => "yes",
        Verdict::Tolerated => "differs",
        other => other.text(),
    };
    let does = seen.split([',', ':', ';']).next().unwrap_or_default();
    match (row.case.starts_with(CLIENT), verdict) {
        (true, _) if seen == UNTOUCHED => "–".to_owned(),
        (true, Verdict::AsSpecified) if !seen.is_empty() => does.to_owned(),
        (true, _) if !seen.is_empty() => format!("**{word}**: {does}"),
        _ => word.to_owned(),
    }
}

/// Observation of a client that never reaches the changed exchange.
pub(super) const UNTOUCHED: &str = "sends no request that this changes";

/// Prefix of the names of all client cases.
const CLIENT: &str = "client-";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(verdict: Verdict, seen: &str) -> Matrix {
        let row = |case: &str, finding| Row { case: case.into(), tries: "it".into(), finding };
        Matrix { rows: vec![row("a", Verdict::AsSpecified.on("")), row("b", verdict.on(seen))] }
    }

    #[test]
    fn plain_reports_are_read_back_and_compared_by_their_verdicts() {
        let wrong = matrix(Verdict::Wrong, "cmd=x  rc=1 \\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, wrong.render(Form::Plain)).unwrap();
        let read = Matrix::read(file.path()).unwrap();
        assert_eq!(read.rows[1].finding, wrong.rows[1].finding);
        assert_eq!(read.rows[0].finding.verdict, Verdict::AsSpecified);
        assert!(matrix(Verdict::Wrong, "otherwise").differences(&read).is_empty());
        assert_eq!(matrix(Verdict::Refused, "").differences(&read).len(), 1);
        assert_eq!((wrong.wrong_count(), wrong.sum().as_str()), (1, "1 as specified, 1 wrong"));
        assert!(Matrix::read(Path::new("no-such-file")).is_err());
    }

    #[test]
    fn other_forms_hold_every_row() {
        let text = matrix(Verdict::Wrong, "a|\"b\"\n").render(Form::Json);
        assert!(text.starts_with("{\"wrong\":1,"));
        assert!(text.contains(r#""verdict":"wrong","seen":"a|\"b\"\n"}"#), "{text}");
        let text = matrix(Verdict::Refused, "a|b").render(Form::Markdown);
        assert!(text.contains("| it | refused | a\\|b |"), "{text}");
        let columns =
            [("x".into(), matrix(Verdict::Refused, "no")), ("y".into(), Matrix::default())];
        let text = join(&columns, |_| Some("tries"));
        assert!(text.contains("| `b` | tries | refused |  |"), "{text}");
        assert!(text.contains("- `b` refused: `no`"), "{text}");
        let client = |verdict: Verdict, seen: &str| {
            short(&Row { case: "client-x".into(), tries: String::new(), finding: verdict.on(seen) })
        };
        assert_eq!(client(Verdict::AsSpecified, "continues; rank 0 sent: x"), "continues");
        assert_eq!(client(Verdict::Wrong, "crashes: signal 11"), "**wrong**: crashes");
        assert_eq!(client(Verdict::AsSpecified, UNTOUCHED), "–");
    }
}
