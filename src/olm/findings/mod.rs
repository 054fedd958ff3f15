//! What a check has found: each thing with a stable code, how grave it is, where it is, and what to do about it.
//!
//! A check gives all that it finds at once, in the order of files and lines, so that two runs give the same text.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

mod codes;
mod lines;
mod report;
mod sarif;

pub use codes::{Code, bundle, catalog, code, codes};
pub(in crate::olm) use lines::Lines;
pub use report::{Format, write};

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// OLM, or the tools of its project, refuse it.
    Error,
    /// It is accepted, and somebody will regret it.
    Warning,
    /// Worth knowing; often meant so.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A line of a file. Lines count from 1; 0 means the file as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file, as the caller would open it.
    pub file: PathBuf,
    /// The line in it.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// How grave.
    pub severity: Severity,
    /// Which rule it breaks: one of [`codes`].
    pub code: &'static str,
    /// What is wrong, with the names and values that are.
    pub message: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Finding {
    /// What the rule of a code finds at a place.
    pub fn new(code: &'static Code, place: &Place, message: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            severity: code.severity,
            code: code.name,
            message: message.into(),
            remedy: code.remedy,
        }
    }

    /// What the rule of a code finds of a file, or a folder, as a whole.
    pub fn of_file(code: &'static Code, file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        let file = file.into();
        Self::new(code, &Place { file, line: 0 }, message)
    }

    /// With what to do in this very case, where the rule says it of another one.
    pub(in crate::olm) fn remedied_by(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }
}

/// How many findings there are of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
    /// Notes.
    pub notes: usize,
}

impl Count {
    /// Counts them.
    pub fn of(findings: &[Finding]) -> Self {
        findings.iter().fold(Self::default(), |mut count, finding| {
            match finding.severity {
                Severity::Error => count.errors += 1,
                Severity::Warning => count.warnings += 1,
                Severity::Note => count.notes += 1,
            }
            count
        })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {}",
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note")
        )
    }
}

/// A value as a message tells it.
pub(in crate::olm) fn shortened(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// `1 error`, `2 errors`
pub fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// `a, b and 3 more`, so that a message stays short however many there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MOST].join(", ")),
    }
}
