//! Rules in the Common Expression Language, as far as they are certain to be refused: by the API server, in a definition's schema, or by OLM's resolver, in a
//! constraint.
//!
//! A rule is parsed, and what it names is looked up: variables, functions, the fields of schemas; of what has a type that is known, whether the types fit.
//! Where a type is not known nothing is said. What a rule may cost is not estimated: the API server refuses rules that might run over the items of long lists
//! for which the schema sets no bound.

mod check;
mod functions;
mod types;

use ::cel::parser::Parser;
use serde_json::Value;

pub use types::Type;

use check::Check;

/// What a rule may name.
#[derive(Debug, Clone, Copy)]
pub enum Environment<'s> {
    /// `self` and `oldSelf`, of this schema, and the functions of Kubernetes.
    Kubernetes {
        /// The schema that the rule is part of.
        schema: &'s Value,
        /// Whether an object of its own has this schema, with a kind and metadata.
        is_resource: bool,
        /// Whether `oldSelf` is optional.
        is_old_optional: bool,
    },
    /// `properties`, of a bundle, and `semver_compare`.
    Constraint,
}

/// What is known of a rule in which nothing is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Whether it looks at what was there before, if the rule was looked at.
    pub uses_old: Option<bool>,
}

/// The longest rule that is looked at, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// How many brackets and choices may be open at once in one that is: the parser takes 10 KiB of stack for each.
const MAX_OPEN: usize = 48;
/// How many operators and steps it may have: each may lie within the one before.
const MAX_STEPS: usize = 400;

/// Judges a rule that shall come to a value of type `expected`.
///
/// # Errors
/// Why it is refused. Rules that are too long or too deep to be looked at count as sound.
pub fn check(rule: &str, environment: Environment<'_>, expected: &Type<'_>) -> Result<Sound, String> {
    if !is_small(rule) {
        return Ok(Sound::default());
    }
    let parser = Parser::new().enable_optional_syntax(true);
    let parsed = parser.parse(rule).map_err(|errors| {
        let first = errors.errors.first();
        first.map_or_else(String::new, |error| {
            format!("{}, at {}:{}", error.msg, error.pos.0, error.pos.1)
        })
    })?;
    let mut check = Check::new(environment);
    let found = check.expression(&parsed)?;
    if found == Type::Null || found.is_apart(expected) {
        return Err(format!("it comes to {found}, and must come to {expected}"));
    }
    Ok(Sound {
        uses_old: Some(check.uses_old),
    })
}

/// Whether the parser, and whoever walks through what it makes, has stack enough for it. Text within quotes counts as well: what is not looked at is left to
/// whoever installs it.
fn is_small(rule: &str) -> bool {
    let (mut open, mut most, mut steps) = (0_usize, 0, 0);
    for byte in rule.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' => steps += 1,
            _ => {}
        }
        most = most.max(open);
    }
    rule.len() <= MAX_BYTES && most <= MAX_OPEN && steps <= MAX_STEPS
}

#[cfg(test)]
mod tests;
