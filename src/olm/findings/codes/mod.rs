//! The rules, by their codes. What a code is called never changes: people silence and search for it.

use super::Severity;

pub mod bundle;
pub mod catalog;

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// What it is called, such as `channel-heads`.
    pub name: &'static str,
    /// How grave it is to break it.
    pub severity: Severity,
    /// The rule in one sentence.
    pub title: &'static str,
    /// Why there is such a rule: who refuses what breaks it, or what becomes of it.
    pub why: &'static str,
    /// What to do where it is broken.
    pub remedy: &'static str,
}

/// All rules: those of catalogs, then those of bundles.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    catalog::ALL.iter().chain(bundle::ALL).copied()
}

/// The rule of a name.
pub fn code(name: &str) -> Option<&'static Code> {
    codes().find(|code| code.name == name)
}

/// `NAME = severity "name": "title" "why" "remedy"`
macro_rules! rules {
    ($($constant:ident = $severity:ident $name:literal: $title:literal, $why:literal, $remedy:literal;)*) => {
        $(
            #[doc = $title]
            pub const $constant: $crate::olm::findings::Code = $crate::olm::findings::Code {
                name: $name,
                severity: $crate::olm::findings::Severity::$severity,
                title: $title,
                why: $why,
                remedy: $remedy,
            };
        )*
        /// All of them.
        pub const ALL: &[&$crate::olm::findings::Code] = &[$(&$constant),*];
    };
}
use rules;
