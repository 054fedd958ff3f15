//! What is wrong with a spec, in the same words wherever it is told: by a webhook, in a condition, in an Event.

use std::fmt;

/// How many problems a message spells out before it only counts.
const SPELLED_OUT: usize = 5;

/// One thing wrong with a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where, for example `spec.routes[1].upstream`.
    pub field: String,
    /// What was found there, shortened.
    pub value: String,
    /// What would be accepted.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {:?}; it must be {}",
            self.field, self.value, self.expected
        )
    }
}

/// All that is wrong with a spec; never empty. Its text names the first five problems and counts the others.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems, in the order of the fields.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }

    /// These, and then those of `more`.
    pub(super) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// The same problems, with each place as `name` calls it.
    pub(super) fn told(mut self, name: impl Fn(&str) -> String) -> Self {
        for problem in &mut self.0 {
            problem.field = name(&problem.field);
        }
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelled: Vec<_> = self.0.iter().take(SPELLED_OUT).map(Problem::to_string).collect();
        f.write_str(&spelled.join("; "))?;
        match self.0.len().saturating_sub(SPELLED_OUT) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Gathers problems.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Problem>);

impl Found {
    /// Unless it `holds`, `field` is noted with its value, shortened, and what is `expected` of it.
    pub(super) fn expect(&mut self, holds: bool, field: &str, value: impl ToString, expected: &str) {
        if !holds {
            let value = value.to_string().chars().take(80).collect();
            self.0.push(Problem {
                field: field.to_owned(),
                value,
                expected: expected.to_owned(),
            });
        }
    }

    /// What was found, if it is anything.
    pub(super) fn done(self) -> Result<(), Problems> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Problems(self.0))
        }
    }
}
