//! What is certain of a rule. The API server is the judge of these verdicts, too (`tests/bundle_definitions_apiserver.rs`), and upstream's validators of those
//! on constraints (`tests/bundle_judge.rs`).

use rstest::rstest;
use serde_json::json;

use super::*;

fn judged(rule: &str) -> Result<Sound, String> {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "array", "items": {"type": "string"}},
        "d": {"type": "object", "additionalProperties": {"type": "integer"}}, "e-f": {"type": "boolean"},
        "namespace": {"type": "string"}, "g": {"x-kubernetes-int-or-string": true},
    }});
    let environment = Environment::Kubernetes {
        schema: &schema,
        is_resource: true,
        is_old_optional: false,
    };
    check(rule, environment, &Type::Bool)
}

#[rstest]
#[case("self.metadata.name.startsWith('a')")]
#[case("self.e__dash__f || self.__namespace__ == 'a'")]
#[case("self.c.all(x, x.size() > self.a) && self.d['a'] == 1")]
#[case("type(self.g) == string ? self.g == 'a' : self.g > 1.5")]
#[case("quantity(self.b).isLessThan(quantity('1Gi'))")]
#[case("self.c.exists(i, v, i > 0 && v == 'a')")]
fn what_the_api_server_takes_is_sound(#[case] rule: &str) {
    assert_eq!(
        judged(rule),
        Ok(Sound {
            uses_old: Some(false)
        })
    );
}

#[test]
fn a_rule_that_looks_back_says_so() {
    assert_eq!(judged("self.a >= oldSelf.a"), Ok(Sound { uses_old: Some(true) }));
}

#[rstest]
#[case("self.a >", "at 1:")]
#[case("self.h == 1", "has no field h")]
#[case("self.metadata.labels.size() > 0", "has no field labels")]
#[case("selff.a == 1", "there is no selff here")]
#[case("self.a.c == 1", "an int has no field c")]
#[case("self.a", "it comes to an int, and must come to a bool")]
#[case("self.a == 'b'", "an int and a string cannot be compared")]
#[case("self.b.beginsWith('a')", "there is no method beginsWith")]
#[case("self.b.startsWith()", "has no method startsWith of 0 arguments")]
#[case("self.a.startsWith('a')", "an int has no method startsWith")]
#[case("self.b.matches('a(')", "no regular expression")]
#[case("self.b.all(x, true)", "a string has no items to go through")]
#[case("self.c.all(x, x > 1)", "a string and an int cannot be compared")]
#[case("self.a in self.c", "an int is never in a list")]
#[case("self.b && true", "a string is neither true nor false")]
#[case("self.c.exists(x, x == 'a') && x == 'a'", "there is no x here")]
fn what_it_refuses_is_told(#[case] rule: &str, #[case] told: &str) {
    let why = judged(rule).unwrap_err();
    assert!(why.contains(told), "{why}");
}

/// The walk is a recursion, as the parser is, and threads have stacks of 2 MiB.
#[rstest]
#[case("(", 2_000)]
#[case("[", 5_000)]
#[case("self.a ? self.b : ", 1_000)]
#[case("self.", 5_000)]
#[case("1+", 5_000)]
#[case("self.a + ", 199)]
#[case("!", 5_000)]
#[case("-", 400)]
#[case("self.c.exists(x, ", 48)]
#[case("(", 48)]
#[case("self.a ? self.b : ", 48)]
fn what_is_too_deep_is_left_alone(#[case] part: &str, #[case] times: usize) {
    let _ = judged(&part.repeat(times));
    let _ = judged(&format!("{}1", part.repeat(times)));
}
