//! What a registry wants to be shown (`WWW-Authenticate`, RFC 9110).

use http::{HeaderMap, header};

/// Challenges of one answer that are looked at.
const MOST: usize = 8;

/// One of the ways that a registry accepts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    scheme: String,
    fields: Vec<(String, String)>,
}

impl Challenge {
    pub(super) fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(super) fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// What the token is to be for: what we are about to do in the repository, and what else the registry asks for.
    pub(super) fn scopes(&self, path: &str, actions: &str) -> Vec<String> {
        let own = format!("repository:{path}:");
        let asked = self.field("scope").unwrap_or_default().split(' ');
        let others = asked.filter(|scope| !scope.is_empty() && !scope.starts_with(&own));
        let mut scopes = vec![format!("{own}{actions}")];
        scopes.extend(others.take(MOST).map(str::to_owned));
        scopes
    }
}

/// All challenges of an answer.
pub(super) fn all(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(parse).take(MOST).collect()
}

fn parse(text: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | '='))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return challenges;
        }
        let Some(value) = after.strip_prefix('=') else {
            challenges.push(Challenge {
                scheme: word.to_owned(),
                fields: Vec::new(),
            });
            rest = after;
            continue;
        };
        let (value, after) = field(value);
        if let Some(challenge) = challenges.last_mut() {
            challenge.fields.push((word.to_owned(), value));
        }
        rest = after;
    }
}

/// The value at the beginning of a text, in quotes or not, and what follows.
fn field(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text
            .find(|c: char| c == ',' || c.is_whitespace())
            .unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[test]
    fn challenges_are_read_with_their_fields_in_quotes_or_not() {
        let text = r#"Basic realm="a, \"b\"", Bearer realm="https://auth.example.com/token?x=y",service=r.example.com , scope="repository:a:pull other""#;
        let found = parse(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].field("realm"), Some(r#"a, "b""#));
        assert!(found[1].is("bearer"));
        assert_eq!(
            found[1].field("Realm"),
            Some("https://auth.example.com/token?x=y")
        );
        assert_eq!(found[1].field("service"), Some("r.example.com"));
        assert_eq!(
            found[1].scopes("a", "pull,push"),
            ["repository:a:pull,push", "other"]
        );
    }

    proptest! {
        #[test]
        fn whatever_a_registry_says_does_no_harm(texts in proptest::collection::vec("([a-zA-Z]{1,8}|[ ,=\"\\\\\t]|[!-~]|é){0,40}", 0..12)) {
            let mut headers = HeaderMap::new();
            for text in &texts {
                parse(text);
                if let Ok(value) = text.parse() {
                    headers.append(header::WWW_AUTHENTICATE, value);
                }
            }
            let found = all(&headers);
            prop_assert!(found.len() <= MOST);
            for challenge in found {
                prop_assert!(challenge.scopes("a", "pull").len() <= MOST + 1);
            }
        }
    }

    #[rstest]
    #[case("", 0)]
    #[case("Basic", 1)]
    #[case("realm=\"nobody's\"", 0)]
    #[case("Bearer realm=\"never ends", 1)]
    #[case("=,=,=", 0)]
    fn what_is_no_challenge_does_no_harm(#[case] text: &str, #[case] expected: usize) {
        assert_eq!(parse(text).len(), expected);
    }
}
