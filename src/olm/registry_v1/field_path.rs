//! Paths to fields, such as `.spec['a.b']`, as rules name what they are about (`ValidFieldPath` of apiextensions-apiserver).

use serde_json::Value;

/// Whether a path leads to a field of a schema.
pub(super) fn leads(path: &str, schema: &Value) -> bool {
    let (mut rest, mut schema) = (path, schema);
    while !rest.is_empty() {
        let Some((name, after)) = step(rest) else {
            return false;
        };
        let inner = match (&schema["properties"], &schema["additionalProperties"]) {
            (Value::Object(properties), _) => properties.get(name.as_str()),
            (_, others @ (Value::Object(_) | Value::Bool(_))) => Some(others),
            _ => None,
        };
        let Some(inner) = inner else { return false };
        (rest, schema) = (after, inner);
    }
    true
}

/// The first name of a path, and what follows.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let mut name = String::new();
    let mut characters = path.strip_prefix("['")?.chars();
    loop {
        match characters.next()? {
            '\\' => name.push(characters.next()?),
            '\'' => return Some((name, characters.as_str().strip_prefix(']')?)),
            character => name.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(".spec.size", true)]
    #[case(".spec['a.b']", true)]
    #[case("['spec']['it\\'s']", true)]
    #[case(".labels.any", true)]
    #[case(".spec", true)]
    #[case("spec", false)]
    #[case(".spec.", false)]
    #[case(".spec.other", false)]
    #[case(".spec['size'", false)]
    #[case(".spec[size]", false)]
    #[case(".spec.size.more", false)]
    fn a_path_leads_to_a_field_or_nowhere(#[case] path: &str, #[case] leads: bool) {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "string"}, "a.b": {"type": "string"}, "it's": {"type": "string"}
            }},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }});
        assert_eq!(super::leads(path, &schema), leads);
    }
}
