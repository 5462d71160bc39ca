//! Text tables: the first column to the left, numbers to the right, sections between rules.

/// Rows of equal length, cut into sections.
pub(crate) struct Table {
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    Rule,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Table {
        let mut table = Table { rows: Vec::new() };
        table.row(header.iter().map(ToString::to_string).collect());
        table.rule();
        table
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    /// A line across.
    pub(crate) fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    pub(crate) fn print(&self) {
        print!("{}", self.text());
    }

    fn text(&self) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let across = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let mut text = String::new();
        for row in &self.rows {
            let line = match row {
                Row::Rule => "─".repeat(across),
                Row::Cells(cells) => aligned(cells, &widths),
            };
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    padded.collect::<Vec<_>>().join("  ")
}

/// 1234567 as `1 234 567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1 234 567");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["a".to_owned(), "100".to_owned()]);
        assert_eq!(table.text(), "name    n\n─────────\na     100\n");
    }
}
