//! Schemas of definitions and whole definitions, good and bad ones, for the API server to judge. A schema is that of a field, unless its name begins with `root`.

use serde_json::{Value, json};

/// The names and the schemas.
pub fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = fields();
    all.extend(lists());
    all.extend(logical());
    all.extend(roots());
    all
}

fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!({"type": "string"})),
        ("no type", json!({})),
        (
            "a choice that is written otherwise in the default",
            json!({"type": "number", "enum": [1.0, 2.5], "default": 1}),
        ),
        (
            "a default without what has a default",
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "default": "x"}}, "default": {}}),
        ),
        (
            "int or string by the second of allOf",
            json!({"x-kubernetes-int-or-string": true,
            "allOf": [{"pattern": "a"}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}]}),
        ),
        (
            "int or string further in",
            json!({"x-kubernetes-int-or-string": true, "not": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}),
        ),
        (
            "a rule with the path of a field",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b.c": {"type": "string"}}, "x-kubernetes-validations": [
                {"rule": "true", "fieldPath": ".a"}, {"rule": "true", "fieldPath": "['b.c']"}
            ]}),
        ),
        (
            "a rule with the path of no field",
            json!({"type": "object", "properties": {"a": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]}),
        ),
        (
            "a rule with a path into a map",
            json!({"type": "object", "additionalProperties": {"type": "string"},
            "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]}),
        ),
        ("no type and a description", json!({"description": "a"})),
        ("unknown type", json!({"type": "text"})),
        ("null as type", json!({"type": "null"})),
        ("preserved", json!({"x-kubernetes-preserve-unknown-fields": true})),
        (
            "preserved: false",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        ),
        ("int or string", json!({"x-kubernetes-int-or-string": true})),
        (
            "int or string with a type",
            json!({"type": "string", "x-kubernetes-int-or-string": true}),
        ),
        (
            "int or string by anyOf",
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        (
            "anyOf of types without it",
            json!({"type": "string", "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        (
            "int or string the other way round",
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ),
        (
            "int or string by allOf",
            json!({"x-kubernetes-int-or-string": true,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}]}),
        ),
        (
            "int or string, preserved",
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "map",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            "map of anything",
            json!({"type": "object", "additionalProperties": true}),
        ),
        (
            "nothing else",
            json!({"type": "object", "additionalProperties": false}),
        ),
        (
            "fields and true",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
        ),
        (
            "fields and false",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
        ),
        (
            "fields and a map",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        ),
        (
            "no fields and a map",
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
        ),
        ("reference", json!({"type": "object", "$ref": "#/a"})),
        (
            "pattern properties",
            json!({"type": "object", "patternProperties": {"a": {"type": "string"}}}),
        ),
        (
            "definitions",
            json!({"type": "object", "definitions": {"a": {"type": "string"}}}),
        ),
        (
            "unique items",
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        ),
        (
            "pattern",
            json!({"type": "string", "pattern": "^[^[\\]]+(a|b)*$"}),
        ),
        (
            "pattern that looks ahead",
            json!({"type": "string", "pattern": "^(?=a)b$"}),
        ),
        (
            "pattern that is not closed",
            json!({"type": "string", "pattern": "(a"}),
        ),
        (
            "pattern with a range the wrong way round",
            json!({"type": "string", "pattern": "[z-a]"}),
        ),
        (
            "pattern with a number of times the wrong way round",
            json!({"type": "string", "pattern": "a{3,2}"}),
        ),
        (
            "pattern that repeats nothing",
            json!({"type": "string", "pattern": "*a"}),
        ),
        (
            "pattern that repeats a beginning, and begins with a brace",
            json!({"type": "string", "pattern": "^*{a}"}),
        ),
        (
            "pattern with a brace and an octal escape",
            json!({"type": "string", "pattern": "^({[a-z]+}|[^\\0]|\\101)$"}),
        ),
        (
            "default of a preserved list",
            json!({"x-kubernetes-preserve-unknown-fields": true, "default": [{"b": 1}]}),
        ),
        (
            "embedded",
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "embedded without fields",
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
        ),
        (
            "embedded with fields",
            json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"kind": {"type": "string"}, "spec": {"type": "object"}}}),
        ),
        (
            "embedded map",
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "additionalProperties": {"type": "string"}}),
        ),
        (
            "embedded text",
            json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "embedded whose kind is a number",
            json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"kind": {"type": "integer"}}}),
        ),
        ("default", json!({"type": "string", "default": "a"})),
        ("default of another type", json!({"type": "string", "default": 1})),
        (
            "default that is no choice",
            json!({"type": "string", "enum": ["a"], "default": "b"}),
        ),
        (
            "default with an unknown field",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
        ),
        (
            "rule",
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}),
        ),
        (
            "rule that is empty",
            json!({"type": "object", "x-kubernetes-validations": [{"rule": " "}]}),
        ),
        (
            "rule of two lines",
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true ||\ntrue"}]}),
        ),
        (
            "rule of two lines with a message",
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true ||\ntrue", "message": "a"}]}),
        ),
        (
            "rule with a reason",
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Because"}]}),
        ),
    ]
}

fn lists() -> Vec<(&'static str, Value)> {
    let keyed = |items: Value, keys: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let item = |key: Value| json!({"type": "object", "properties": {"a": key, "b": {"type": "string"}}, "required": ["b"]});
    vec![
        ("list", json!({"type": "array", "items": {"type": "string"}})),
        ("list without items", json!({"type": "array"})),
        (
            "list of several",
            json!({"type": "array", "items": [{"type": "string"}]}),
        ),
        ("list of untyped", json!({"type": "array", "items": {}})),
        (
            "set",
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        ),
        (
            "set of objects",
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        ),
        (
            "set of whole objects",
            json!({"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "set"}),
        ),
        (
            "set of nullables",
            json!({"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"}),
        ),
        (
            "unknown list type",
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
        ),
        (
            "list type of text",
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
        ),
        (
            "map type of a list",
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
        ),
        (
            "unknown map type",
            json!({"type": "object", "x-kubernetes-map-type": "whole"}),
        ),
        ("keyed list", keyed(item(json!({"type": "string"})), json!(["b"]))),
        (
            "keyed by what may be missing",
            keyed(item(json!({"type": "string"})), json!(["a"])),
        ),
        (
            "keyed by what has a default",
            keyed(item(json!({"type": "string", "default": "x"})), json!(["a"])),
        ),
        (
            "keyed by a list",
            keyed(
                item(json!({"type": "array", "default": [], "items": {"type": "string"}})),
                json!(["a"]),
            ),
        ),
        (
            "keyed by what may be null",
            keyed(
                item(json!({"type": "string", "default": "x", "nullable": true})),
                json!(["a"]),
            ),
        ),
        (
            "keyed twice",
            keyed(item(json!({"type": "string"})), json!(["b", "b"])),
        ),
        (
            "keyed by what is not there",
            keyed(item(json!({"type": "string"})), json!(["c"])),
        ),
        (
            "keyed by nothing",
            keyed(item(json!({"type": "string"})), json!([])),
        ),
        (
            "keyed list of text",
            keyed(json!({"type": "string"}), json!(["a"])),
        ),
        (
            "keys alone",
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-map-keys": ["a"]}),
        ),
    ]
}

fn logical() -> Vec<(&'static str, Value)> {
    let within =
        |inner: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [inner]});
    vec![
        ("one is required", within(json!({"required": ["a"]}))),
        (
            "a field is restricted",
            within(json!({"properties": {"a": {"enum": ["x"]}}})),
        ),
        (
            "an unknown field is restricted, not at the root",
            within(json!({"properties": {"b": {"enum": ["x"]}}})),
        ),
        ("type within", within(json!({"type": "object"}))),
        (
            "empty description within",
            within(json!({"description": "", "required": ["a"]})),
        ),
        ("description within", within(json!({"description": "a"}))),
        ("not nullable within", within(json!({"nullable": false}))),
        ("nullable within", within(json!({"nullable": true}))),
        (
            "default within",
            within(json!({"properties": {"a": {"default": "x"}}})),
        ),
        (
            "map within",
            within(json!({"additionalProperties": {"pattern": "a"}})),
        ),
        ("anything within", within(json!({"additionalProperties": true}))),
        (
            "nothing else within",
            within(json!({"additionalProperties": false})),
        ),
        (
            "preserved within",
            within(json!({"x-kubernetes-preserve-unknown-fields": true})),
        ),
        (
            "int or string within",
            within(json!({"properties": {"a": {"x-kubernetes-int-or-string": true}}})),
        ),
        (
            "rule within",
            within(json!({"x-kubernetes-validations": [{"rule": "true"}]})),
        ),
        (
            "metadata within",
            within(json!({"properties": {"metadata": {"required": ["a"]}}})),
        ),
        (
            "pattern within that is not closed",
            within(json!({"properties": {"a": {"pattern": "(a"}}})),
        ),
        (
            "not",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["a"]}}),
        ),
    ]
}

/// Of a whole definition.
fn roots() -> Vec<(&'static str, Value)> {
    let with = |name: &str, field: Value| json!({"type": "object", "properties": {name: field}});
    vec![
        ("root: text", json!({"type": "string"})),
        ("root: nullable", json!({"type": "object", "nullable": true})),
        (
            "root: no type",
            json!({"properties": {"spec": {"type": "object"}}}),
        ),
        (
            "root: preserved",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "root: map",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            "root: anything",
            json!({"type": "object", "additionalProperties": true}),
        ),
        (
            "root: a name's length",
            with(
                "metadata",
                json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}),
            ),
        ),
        (
            "root: labels",
            with(
                "metadata",
                json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            ),
        ),
        (
            "root: described metadata",
            with("metadata", json!({"type": "object", "description": "a"})),
        ),
        (
            "root: required of metadata",
            with("metadata", json!({"type": "object", "required": ["name"]})),
        ),
        ("root: untyped metadata", with("metadata", json!({}))),
        (
            "root: metadata as text",
            with("metadata", json!({"type": "string"})),
        ),
        ("root: kind as a number", with("kind", json!({"type": "integer"}))),
        (
            "root: default of kind",
            with("kind", json!({"type": "string", "default": "Widget"})),
        ),
        (
            "root: an unknown field is restricted",
            json!({"type": "object", "properties": {"spec": {"type": "object"}},
            "anyOf": [{"properties": {"status": {"required": ["a"]}}}]}),
        ),
        (
            "root: an unknown field is restricted, preserved",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "anyOf": [{"properties": {"status": {"required": ["a"]}}}]}),
        ),
        (
            "root: an unknown field further in",
            json!({"type": "object", "properties": {"spec": {"type": "object"}},
            "anyOf": [{"properties": {"spec": {"properties": {"a": {"enum": [1]}}}}}]}),
        ),
    ]
}

/// What is said in a definition, and where.
pub fn whole() -> Vec<(&'static str, &'static str, Value)> {
    const FIRST: &str = "/spec/versions/0";
    let with_status = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        schema
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}})
    };
    let within = |field: &str| -> &'static str { format!("{FIRST}/{field}").leak() };
    let hook = |client: Value, versions: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}});
    let service = |more: Value| {
        let mut service = json!({"name": "a", "namespace": "b"});
        service
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        hook(json!({"service": service}), json!(["v1"]))
    };
    let at = |url: &str| hook(json!({"url": url}), json!(["v1"]));
    let column = |more: Value| {
        let mut column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"});
        column
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([column])
    };
    let scale = |selector: &str| json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": selector}});
    vec![
        ("group without a dot", "/spec/group", json!("example")),
        ("scope", "/spec/scope", json!("Everywhere")),
        ("plural with a capital", "/spec/names/plural", json!("Widgets")),
        ("short name", "/spec/names/shortNames", json!(["wi"])),
        ("bad short name", "/spec/names/shortNames", json!(["w_i"])),
        ("list kind", "/spec/names/listKind", json!("Widget")),
        ("deprecated", within("deprecated"), json!(true)),
        (
            "warning of a version that is none",
            within("deprecationWarning"),
            json!("a"),
        ),
        ("no version stored", within("storage"), json!(false)),
        ("column", within("additionalPrinterColumns"), column(json!({}))),
        (
            "column with a format",
            within("additionalPrinterColumns"),
            column(json!({"format": "int32"})),
        ),
        (
            "column with another format",
            within("additionalPrinterColumns"),
            column(json!({"format": "hex"})),
        ),
        (
            "column of a list",
            within("additionalPrinterColumns"),
            column(json!({"type": "array"})),
        ),
        (
            "column without a dot",
            within("additionalPrinterColumns"),
            column(json!({"jsonPath": "spec.size"})),
        ),
        (
            "selectable",
            within("selectableFields"),
            json!([{"jsonPath": ".spec.size"}]),
        ),
        (
            "selectable twice",
            within("selectableFields"),
            json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.size"}]),
        ),
        (
            "selectable object",
            within("selectableFields"),
            json!([{"jsonPath": ".spec"}]),
        ),
        (
            "selectable metadata",
            within("selectableFields"),
            json!([{"jsonPath": ".metadata.name"}]),
        ),
        (
            "selectable that is not there",
            within("selectableFields"),
            json!([{"jsonPath": ".spec.length"}]),
        ),
        ("status", FIRST, with_status(json!({"required": ["spec"]}))),
        (
            "status beside what is not accepted at the root",
            FIRST,
            with_status(json!({"maxProperties": 3})),
        ),
        (
            "status beside what nobody knows",
            FIRST,
            with_status(json!({"x-widgets-note": "made by a tool", "readOnly": true})),
        ),
        ("scale", within("subresources"), scale(".status.selector")),
        (
            "scale by what is nowhere",
            within("subresources"),
            scale(".selector"),
        ),
        ("not converted", "/spec/conversion", json!({"strategy": "None"})),
        (
            "not converted, with a webhook",
            "/spec/conversion",
            json!({"strategy": "None", "webhook": {}}),
        ),
        (
            "not converted, with a webhook of nothing",
            "/spec/conversion",
            json!({"strategy": "None", "webhook": {"conversionReviewVersions": []}}),
        ),
        (
            "not converted, with a webhook that says something",
            "/spec/conversion",
            json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
        ),
        (
            "converted by a service",
            "/spec/conversion",
            service(json!({"path": "/a/b.c", "port": 8443})),
        ),
        (
            "by a service at a bad path",
            "/spec/conversion",
            service(json!({"path": "a"})),
        ),
        (
            "by a service at an empty part",
            "/spec/conversion",
            service(json!({"path": "/a//b"})),
        ),
        (
            "by a service at a bad port",
            "/spec/conversion",
            service(json!({"port": 70000})),
        ),
        (
            "by a service without a name",
            "/spec/conversion",
            service(json!({"name": ""})),
        ),
        (
            "converted by an address",
            "/spec/conversion",
            at("https://example.org/a"),
        ),
        (
            "by an address in the clear",
            "/spec/conversion",
            at("http://example.org/a"),
        ),
        (
            "by an address with a query",
            "/spec/conversion",
            at("https://example.org/a?b=c"),
        ),
        (
            "by an address with a user",
            "/spec/conversion",
            at("https://a@example.org/"),
        ),
        (
            "by an address without a host",
            "/spec/conversion",
            at("https:///a"),
        ),
        (
            "review versions",
            "/spec/conversion",
            hook(json!({"url": "https://a.b"}), json!(["v2", "v1beta1"])),
        ),
        (
            "review versions twice",
            "/spec/conversion",
            hook(json!({"url": "https://a.b"}), json!(["v1", "v1"])),
        ),
        (
            "review versions of one's own",
            "/spec/conversion",
            hook(json!({"url": "https://a.b"}), json!(["v2"])),
        ),
        (
            "no review versions",
            "/spec/conversion",
            hook(json!({"url": "https://a.b"}), json!([])),
        ),
        (
            "bad review versions",
            "/spec/conversion",
            hook(json!({"url": "https://a.b"}), json!(["v1", "V2"])),
        ),
        ("neither", "/spec/conversion", hook(json!({}), json!(["v1"]))),
    ]
}
