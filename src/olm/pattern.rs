//! Regular expressions of Go.

/// Why Go would not compile a pattern, as far as that is certain: much else is an error in one grammar alone, such as what is within brackets.
pub fn is_none(pattern: &str) -> Option<String> {
    use regex_syntax::ast::ErrorKind::{
        ClassRangeInvalid, EscapeUnexpectedEof, GroupUnclosed, GroupUnopened, RepetitionCountInvalid,
        RepetitionMissing, UnsupportedLookAround,
    };
    let error = regex_syntax::ast::parse::Parser::new().parse(pattern).err()?;
    let is_certain = match error.kind() {
        ClassRangeInvalid | EscapeUnexpectedEof | RepetitionCountInvalid | UnsupportedLookAround => true,
        // A brace that counts nothing is one for Go
        RepetitionMissing => !pattern.contains('{'),
        GroupUnclosed | GroupUnopened => !pattern.contains(['[', '\\']),
        _ => false,
    };
    is_certain.then(|| error.kind().to_string())
}
