//! Lines of a Dockerfile, of names that others have chosen: whatever they hold, each stays one line and one word.

/// Copies a folder of the build context.
pub(super) fn copy(from: &str, to: &str) -> String {
    let needs_quotes = |it: char| it.is_whitespace() || it.is_control();
    if from.contains(needs_quotes) {
        // In this form alone names may hold white space
        format!("COPY {}\n", serde_json::json!([from, to]))
    } else {
        format!("COPY {from} {to}\n")
    }
}

/// Gives the image a label.
pub(super) fn label(key: &str, value: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "+,-./:=_@".contains(it);
    if value.chars().all(is_plain) {
        return format!("LABEL {key}={value}\n");
    }
    let mut quoted = String::new();
    for it in value.chars() {
        if "\"$\\".contains(it) {
            quoted.push('\\');
        }
        quoted.push(it);
    }
    format!("LABEL {key}=\"{quoted}\"\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("bundle/manifests", "COPY bundle/manifests /manifests/\n")]
    #[case("my bundle/manifests", "COPY [\"my bundle/manifests\",\"/manifests/\"]\n")]
    #[case("a\nRUN x", "COPY [\"a\\nRUN x\",\"/manifests/\"]\n")]
    #[case("a \"b\"", "COPY [\"a \\\"b\\\"\",\"/manifests/\"]\n")]
    fn a_folder_of_any_name_is_copied_by_one_line(#[case] from: &str, #[case] line: &str) {
        assert_eq!(copy(from, "/manifests/"), line);
    }

    #[rstest]
    #[case("candidate,stable-v0.1", "LABEL channels=candidate,stable-v0.1\n")]
    #[case("registry+v1", "LABEL channels=registry+v1\n")]
    #[case("it's", "LABEL channels=\"it's\"\n")]
    #[case("a$b\"c\\", "LABEL channels=\"a\\$b\\\"c\\\\\"\n")]
    fn a_label_holds_what_is_said(#[case] value: &str, #[case] line: &str) {
        assert_eq!(label("channels", value), line);
    }
}
