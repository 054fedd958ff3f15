//! Rules in CEL, good and bad ones, for the API server to judge.

use serde_json::{Value, json};

/// A rule, and where it stands.
pub struct Rule {
    pub name: String,
    /// The schema of the field `field`.
    pub schema: Value,
}

pub fn all() -> Vec<Rule> {
    let mut all: Vec<Rule> = OF_AN_OBJECT.iter().map(|rule| of_an_object(rule)).collect();
    all.extend(elsewhere().into_iter().map(|(name, schema)| Rule {
        name: name.to_owned(),
        schema,
    }));
    all
}

/// A rule of an object with a field of each type. Whatever has a size has a bound, so that no rule is refused for what it may cost.
fn of_an_object(rule: &str) -> Rule {
    let text = json!({"type": "string", "maxLength": 9});
    Rule {
        name: rule.to_owned(),
        schema: json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "no"}], "properties": {
            "int": {"type": "integer"},
            "double": {"type": "number"},
            "bool": {"type": "boolean"},
            "text": text,
            "bytes": {"type": "string", "format": "byte", "maxLength": 9},
            "date": {"type": "string", "format": "date-time"},
            "duration": {"type": "string", "format": "duration"},
            "either": {"x-kubernetes-int-or-string": true, "maxLength": 9},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": text}},
            "list": {"type": "array", "maxItems": 3, "items": text},
            "numbers": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
            "objects": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {"name": text, "port": {"type": "integer"}}}},
            "map": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
            "inner": {"type": "object", "properties": {"text": text}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "a-b.c/d__e": {"type": "integer"},
            "namespace": text,
            "for": text,
        }}),
    }
}

const OF_AN_OBJECT: &[&str] = &[
    // Syntax
    "self.int > 0 && self.bool",
    "self.int >",
    "self.int > 0)",
    "self..int > 0",
    "self.text == 'a",
    "self.text == \"\"\"a\nb\"\"\"",
    "self.text == r'\\d' // why",
    "self.text == '\\d'",
    "self.text == '\\u00e9\\x41\\101'",
    "self.int == 0x1F",
    "self.int == 99999999999999999999",
    "self.text.matches(r'^[a-z]+$')",
    "self.text.matches('a(b')",
    "matches(self.text, 'a)')",
    "self.text.matches('(?=a)')",
    "self.int == 1 ? self.bool : !self.bool",
    "true",
    "1 + 1",
    "'a'",
    "null",
    "[true][0]",
    "!!self.bool",
    "-self.int < --3",
    // Names
    "self.nothing == 1",
    "self.inner.text == 'a'",
    "self.inner.nothing == 'a'",
    "selff.int == 1",
    "int == 1",
    "x == 1",
    "self.a__dash__b__dot__c__slash__d__underscores__e == 1",
    "self.__namespace__ == 'a'",
    "self.__for__ == 'a'",
    "self.open.known == 'a'",
    "self.open.unknown == 'a'",
    "self.any.unknown == 'a'",
    "self.metadata.name == 'a'",
    "self.embedded.metadata.name == 'a'",
    "self.embedded.metadata.labels.size() == 0",
    "self.embedded.kind == 'A'",
    "self.embedded.spec.a == 1",
    "has(self.text)",
    "has(self.nothing)",
    "has(self.map.a)",
    "has(self.text.size)",
    "has(self)",
    "self.text.a == 1",
    "self['text'] == 'a'",
    "self.map.a == 1",
    "self.map['a'] == 1",
    "self.map[1] == 1",
    "self.list[0] == 'a'",
    "self.list['a'] == 'a'",
    "self.list[self.int] == 'a'",
    // Types
    "self.int",
    "self.text",
    "self.int == 1.0",
    "self.double == 1",
    "self.double > 1",
    "self.int < 1u",
    "self.int == 'a'",
    "self.text == 1",
    "self.text < 'b'",
    "self.text < 1",
    "self.bool == 1",
    "self.bool < true",
    "self.list == ['a']",
    "self.list == [1]",
    "self.list == []",
    "self.list < ['a']",
    "self.map == {'a': 1}",
    "self.map == {}",
    "self.inner == self.inner",
    "self.text + 'a' == 'b'",
    "self.text + 1 == 'b'",
    "self.int + 1 == 2",
    "self.int + 1.0 == 2.0",
    "self.int * 2 / 3 % 4 - 5 == 6",
    "self.double % 2.0 == 0.0",
    "self.text - 'a' == 'b'",
    "self.list + ['a'] == self.list",
    "self.list + self.numbers == self.list",
    "self.bool + true == true",
    "self.text && true",
    "!self.text",
    "self.int ? true : false",
    "(self.bool ? 1 : 'a') == 1",
    "(self.bool ? [1] : []).size() == 1",
    "self.text in self.list",
    "self.int in self.list",
    "self.text in self.map",
    "self.text in self.text",
    "1 in [1, 2]",
    "self.int in [1, 'a']",
    "[1, 'a'].size() == 2",
    "[1, 2.0].size() == 2",
    "{'a': 1, 'b': 'c'}.size() == 2",
    "{1: 'a'}[1] == 'a'",
    "dyn([1, 'a']) == dyn([])",
    "self.either == 1 || self.either == 'a'",
    "self.either.startsWith('a')",
    "type(self.either) == string",
    "type(self.int) == int",
    "self.date > timestamp('2024-01-01T00:00:00Z')",
    "self.date > '2024-01-01T00:00:00Z'",
    "self.date - self.date > duration('1h')",
    "self.date + self.duration > self.date",
    "self.duration + self.duration > duration('1h')",
    "self.duration > 1",
    "self.date.getFullYear() > 2000",
    "self.duration.getHours() > 1",
    "self.bytes == b'a'",
    "self.bytes == 'a'",
    "self.bytes.size() > 1",
    // Functions
    "size(self.list) == 1 && size(self.text) == 1 && size(self.map) == 1",
    "self.int.size() == 1",
    "size(self.int) == 1",
    "self.text.startsWith('a') && self.text.endsWith('b') && self.text.contains('c')",
    "self.text.startsWith()",
    "self.text.startsWith('a', 'b')",
    "self.text.startsWith(1)",
    "startsWith(self.text, 'a')",
    "self.list.startsWith('a')",
    "self.text.beginsWith('a')",
    "begins(self.text)",
    "self.text.lowerAscii().upperAscii().trim().replace('a', 'b').substring(1, 2).charAt(0) == 'a'",
    "self.text.split(',').join('.') == 'a'",
    "self.text.split(',').exists(part, part == 1)",
    "self.text.indexOf('a') == self.list.indexOf('a')",
    "'%s is %d'.format([self.text, self.int]) == 'a'",
    "self.text.find('a') == 'a' && self.text.findAll('a', 2).size() == 1",
    "self.numbers.sum() == self.numbers.max() && self.numbers.isSorted()",
    "self.text.isSorted()",
    "int(self.text) == 1 && double(self.int) == 1.0 && string(self.int) == '1' && uint(self.int) == 1u && bool('true')",
    "quantity(self.text).isLessThan(quantity('1Gi')) && isQuantity(self.text)",
    "quantity('1Gi').add(quantity('1')).sign() == 1",
    "url(self.text).getHost() == 'a' && isURL(self.text)",
    "isIP(self.text) && ip(self.text).family() == 4 && cidr('10.0.0.0/8').containsIP(ip(self.text))",
    "ip.isCanonical(self.text)",
    "!format.dns1123Label().validate(self.text).hasValue()",
    "sets.contains(self.list, ['a']) && sets.intersects(self.list, self.list)",
    "sets.includes(self.list, ['a'])",
    "math.greatest(1, 2) == 2",
    "self.?text.orValue('a') == 'a'",
    "self.?nothing.orValue('a') == 'a'",
    "self.?text.hasValue() && self.map[?'a'].orValue(1) == 1",
    "optional.of(1).hasValue() && optional.none().orValue(1) == 1",
    "self.?text.optMap(t, t + 'a').orValue('') == 'a'",
    "authorizer.path('/a').check('get').allowed()",
    // Comprehensions
    "self.list.all(x, x == 'a')",
    "self.list.all(x, x == 1)",
    "self.list.all(x, y == 'a')",
    "self.list.all(x, x)",
    "self.list.all('x', true)",
    "self.list.all(x)",
    "self.list.exists_one(x, x == 'a')",
    "self.list.map(x, x + 'a').size() == 1",
    "self.list.map(x, x == 'a', x + 'a').size() == 1",
    "self.list.map(x, x + 'a').all(x, x == 'a')",
    "self.list.filter(x, x != 'a').size() == 1",
    "self.list.filter(x, x).size() == 1",
    "self.map.all(key, key.startsWith('a') && self.map[key] > 1)",
    "self.text.all(x, true)",
    "self.int.exists(x, true)",
    "self.inner.all(x, true)",
    "self.objects.all(o, self.objects.exists_one(p, p.name == o.name && p.port == o.port))",
    "self.objects.all(o, o.nothing == 1)",
    "self.objects.exists(o, o.name == 1)",
    "self.list.all(i, v, i > 0 && v == 'a')",
    "self.map.exists(k, v, k == 'a' && v == 1)",
    "self.list.transformList(i, v, v + 'a').size() == 1",
    // What was there before
    "self.int >= oldSelf.int",
    "self.int >= oldSelf.nothing",
    "oldSelf.hasValue()",
];

fn elsewhere() -> Vec<(&'static str, Value)> {
    let object = |rule: Value, items: Value| {
        let mut items = items;
        items["x-kubernetes-validations"] = json!([rule]);
        items
    };
    let list = |kind: &str, rule: &str| {
        let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 9}}});
        let mut list = json!({"type": "array", "maxItems": 3, "items": object(json!({"rule": rule}), item)});
        match kind {
            "" => {}
            "map" => {
                list["x-kubernetes-list-type"] = json!("map");
                list["x-kubernetes-list-map-keys"] = json!(["name"]);
            }
            kind => list["x-kubernetes-list-type"] = json!(kind),
        }
        list
    };
    let value = |rule: Value| {
        let values = object(rule, json!({"type": "integer"}));
        json!({"type": "object", "maxProperties": 3, "additionalProperties": values})
    };
    let number = |rule: Value| object(rule, json!({"type": "integer"}));
    vec![
        ("before, in a list", list("", "self == oldSelf")),
        ("before, in a list by key", list("map", "self == oldSelf")),
        ("before, in an atomic list", list("atomic", "self == oldSelf")),
        ("now, in a list", list("", "self.name == 'a'")),
        ("nothing, in a list", list("", "self.nothing == 'a'")),
        ("before, in a map", value(json!({"rule": "self == oldSelf"}))),
        ("a value of a map", value(json!({"rule": "self > 'a'"}))),
        ("a number", number(json!({"rule": "self > 1"}))),
        ("a number that is none", number(json!({"rule": "self == 'a'"}))),
        (
            "optional and used",
            number(json!({"rule": "!oldSelf.hasValue() || self > oldSelf.value()", "optionalOldSelf": true})),
        ),
        (
            "optional and not used",
            number(json!({"rule": "self > 1", "optionalOldSelf": true})),
        ),
        (
            "not optional and not used",
            number(json!({"rule": "self > 1", "optionalOldSelf": false})),
        ),
        (
            "not optional and used",
            number(json!({"rule": "self > oldSelf", "optionalOldSelf": false})),
        ),
        (
            "optional and compared",
            number(json!({"rule": "self > oldSelf", "optionalOldSelf": true})),
        ),
        (
            "a message",
            number(json!({"rule": "self > 1", "messageExpression": "'is ' + string(self)"})),
        ),
        (
            "a message that is a number",
            number(json!({"rule": "self > 1", "messageExpression": "self"})),
        ),
        (
            "a message that is none",
            number(json!({"rule": "self > 1", "messageExpression": "'is ' +"})),
        ),
        (
            "a message of nothing",
            number(json!({"rule": "self > 1", "messageExpression": "self.nothing"})),
        ),
        (
            "a rule of what has no type",
            object(
                json!({"rule": "true"}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
        ),
        (
            "a rule of an int or string",
            object(
                json!({"rule": "self != 'a'"}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
        ),
    ]
}
