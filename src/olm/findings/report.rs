//! Findings as text for a person, and in the formats that other tools read.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Count, Finding, Severity, sarif};

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One finding a line, its remedy below it, and a last line that counts them.
    Text,
    /// One object: `findings` and `count`.
    Json,
    /// SARIF 2.1.0, which code hosts show beside the lines.
    Sarif,
    /// JUnit's XML, which CI servers show as tests: a case for each file, failed by its errors.
    Junit,
}

/// Writes the findings of a check of `subject`, such as `catalog`.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, format: Format, subject: &str, findings: &[Finding]) -> io::Result<()> {
    match format {
        Format::Text => text(out, subject, findings),
        Format::Json => document(out, &json!({"findings": findings, "count": Count::of(findings)})),
        Format::Sarif => document(out, &sarif::of(findings)),
        Format::Junit => junit(out, subject, findings),
    }
}

fn document(out: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

fn text(out: &mut impl Write, subject: &str, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let Finding {
            place,
            severity,
            code,
            message,
            remedy,
        } = finding;
        writeln!(out, "{place}: {severity}: {message} [{code}]")?;
        writeln!(out, "    {remedy}")?;
    }
    match findings {
        [] => writeln!(out, "{subject}: nothing is wrong"),
        _ => writeln!(
            out,
            "{subject}: {}; `roadstead explain CODE` tells more",
            Count::of(findings)
        ),
    }
}

fn junit(out: &mut impl Write, subject: &str, findings: &[Finding]) -> io::Result<()> {
    let mut files: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let file = finding.place.file.display().to_string();
        files.entry(file).or_default().push(finding);
    }
    let is_error = |finding: &&&Finding| finding.severity == Severity::Error;
    let failed = files
        .values()
        .filter(|all| all.iter().any(|finding| is_error(&finding)))
        .count();
    let subject = escaped(subject);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let tests = files.len().max(1);
    writeln!(
        out,
        "<testsuite name=\"roadstead {subject}\" tests=\"{tests}\" failures=\"{failed}\" errors=\"0\">"
    )?;
    if files.is_empty() {
        writeln!(out, "  <testcase classname=\"{subject}\" name=\"{subject}\"/>")?;
    }
    for (file, all) in &files {
        writeln!(
            out,
            "  <testcase classname=\"{subject}\" name=\"{}\">",
            escaped(file)
        )?;
        for finding in all.iter().filter(is_error) {
            let message = escaped(&finding.message);
            writeln!(
                out,
                "    <failure type=\"{}\" message=\"{message}\">",
                finding.code
            )?;
            writeln!(
                out,
                "{}: {message}\n{}</failure>",
                escaped(&finding.place.to_string()),
                escaped(finding.remedy)
            )?;
        }
        let others: Vec<&&Finding> = all.iter().filter(|finding| !is_error(finding)).collect();
        if !others.is_empty() {
            writeln!(out, "    <system-out>")?;
            for finding in others {
                let told = format!(
                    "{}: {}: {} [{}]",
                    finding.place, finding.severity, finding.message, finding.code
                );
                writeln!(out, "{}", escaped(&told))?;
            }
            writeln!(out, "    </system-out>")?;
        }
        writeln!(out, "  </testcase>")?;
    }
    writeln!(out, "</testsuite>")
}

/// As XML has it. What XML cannot hold at all, such as a control character, becomes a replacement character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}')
            }
            character => escaped.push(character),
        }
    }
    escaped
}
