//! How answers are shown: a table for people, JSON for programs. Nothing here knows what is shown.

use std::io::{self, Write};
use std::sync::OnceLock;

use clap::ValueEnum;
use serde_json::Value;

/// What came first between this process and whoever reads it.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// The form of what a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// The server's JSON, indented.
    Json,
}

/// A column: its heading, and where its value stands in each item, as a JSON pointer.
pub type Column = (&'static str, &'static str);

/// Shows a list as a table with headings.
pub fn list(items: &[Value], columns: &[Column], format: Format) {
    match format {
        Format::Json => json(&Value::Array(items.to_vec())),
        Format::Table => lines(&table(items, columns)),
    }
}

/// Things in the order of their names, whatever their case: as people look for them.
pub fn by_name(items: &[Value]) -> Vec<Value> {
    let mut items = items.to_vec();
    items.sort_by_cached_key(|item| item["name"].as_str().unwrap_or_default().to_lowercase());
    items
}

/// Shows one thing as lines of name and value.
pub fn one(item: &Value, columns: &[Column], format: Format) {
    match format {
        Format::Json => json(item),
        Format::Table => {
            let names = columns.iter().map(|(heading, _)| (*heading).to_owned());
            let rows: Vec<_> = names
                .zip(cells(item, columns))
                .map(|(name, cell)| vec![name, cell])
                .collect();
            lines(&aligned(&rows));
        }
    }
}

/// Says in a sentence what was done; programs get the JSON instead.
pub fn done(sentence: &str, item: &Value, format: Format) {
    match format {
        Format::Json => json(item),
        Format::Table => line(sentence),
    }
}

/// Prints JSON, indented.
pub fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Prints a line. What cannot be written is no matter of whoever prints: [`lost`] tells it at the end. A reader that went
/// away is none of our business: `hedgerow topic list | head -1` is no failure.
pub fn line(text: &str) {
    match try_line(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(LOST.set(error)),
        _ => {}
    }
}

/// Prints a line that is of use only if it arrives.
pub fn try_line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush())
}

/// Why not everything was printed, if it was not.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Prints a line to standard error, if anybody reads there.
pub fn error_line(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Text from outside, safe for a terminal: control signs are written as escapes.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() {
            printable.extend(sign.escape_default());
        } else {
            printable.push(sign);
        }
    }
    printable
}

fn cells(item: &Value, columns: &[Column]) -> Vec<String> {
    let cell = |pointer: &str| match item.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(Value::Array(items)) => {
            let texts = items.iter().map(|item| match item {
                Value::String(text) => printable(text),
                other => other.to_string(),
            });
            texts.collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    };
    columns.iter().map(|(_, pointer)| cell(pointer)).collect()
}

/// The lines of a table, for what stands among other lines.
pub fn table(items: &[Value], columns: &[Column]) -> Vec<String> {
    let heading = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let rows = items.iter().map(|item| cells(item, columns));
    let all: Vec<_> = std::iter::once(heading.collect()).chain(rows).collect();
    aligned(&all)
}

fn lines(lines: &[String]) {
    for text in lines {
        line(text);
    }
}

/// Pads every cell but the last of each row to the width of its column.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let text = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_line_up() {
        let item = json!({"name": "orders", "status": {"pending": 2}, "due": null});
        let columns = [
            ("NAME", "/name"),
            ("PENDING", "/status/pending"),
            ("DUE", "/due"),
        ];
        let heading = columns
            .iter()
            .map(|(heading, _)| (*heading).to_owned())
            .collect();
        let rows = [heading, cells(&item, &columns)];
        assert_eq!(
            aligned(&rows),
            ["NAME    PENDING  DUE", "orders  2        -"]
        );
    }

    #[test]
    fn what_a_publisher_wrote_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        let item = json!({"types": ["a", "b\r"]});
        assert_eq!(cells(&item, &[("TYPES", "/types")]), ["a, b\\r"]);
        let nothing = json!({"types": []});
        assert_eq!(cells(&nothing, &[("TYPES", "/types")]), ["-"]);
    }
}
