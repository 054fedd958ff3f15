//! The lines of a document's fields.

use crate::olm::yaml;

/// The lines of a document's fields, by the JSON pointers that lead to them.
#[derive(Debug)]
pub(in crate::olm) struct Lines {
    /// Of the document.
    first: usize,
    fields: yaml::Lines,
}

impl Lines {
    /// Reads a document whose first line is counted as `first`.
    pub(in crate::olm) fn of(document: &str, first: usize) -> Self {
        // JSON may be indented with tabs, which is no YAML
        let is_json = document.trim_start().starts_with('{');
        let fields = if is_json {
            yaml::lines(&document.replace('\t', " "))
        } else {
            yaml::lines(document)
        };
        Self { first, fields }
    }

    /// The pointers of what is there more than once, and whether there are more than those.
    pub(in crate::olm) fn twice(&self) -> (&[String], bool) {
        self.fields.twice()
    }

    /// The line of what a pointer leads to; of the last part of the way that is found where it does not lead on.
    pub(in crate::olm) fn line(&self, pointer: &str) -> usize {
        let mut way = pointer;
        loop {
            match (self.fields.get(way), way.rfind('/')) {
                (Some(line), _) => return self.first + line - 1,
                (None, Some(end)) => way = &way[..end],
                (None, None) => return self.first,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
# a comment
metadata:
  annotations:
    alm-examples: |-
      [{
        spec:
      }]
    a.b/c: d
spec:
  modes:
  - type: One
    supported: true
  - supported: false
    type: Two
  deep:
    - - a
      - b
  'last' : 1
  flow: {in: [
    braces]}
";

    #[test]
    fn a_pointer_has_its_line() {
        let lines = Lines::of(YAML, 10);
        let expected = [
            ("", 11),
            ("/metadata/annotations/alm-examples", 13),
            ("/metadata/annotations/a.b~1c", 17),
            ("/spec", 18),
            ("/spec/modes", 19),
            ("/spec/modes/0/supported", 21),
            ("/spec/modes/1", 22),
            ("/spec/modes/1/supported", 22),
            ("/spec/modes/1/type", 23),
            ("/spec/last", 27),
            ("/spec/flow/in/0", 29),
            ("/spec/modes/7/type", 19),
            ("/spec/nowhere/at/all", 18),
        ];
        for (pointer, expected) in expected {
            assert_eq!(lines.line(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn so_it_has_in_json_that_is_written_in_lines() {
        let json = "{\n\t\"spec\":\t{\n    \"modes\": [\n      {\n        \"type\": \"One\"\n      },\n      {\n        \"type\": \"Two\"\n      }\n    ]\n  }\n}\n";
        let lines = Lines::of(json, 1);
        assert_eq!(lines.line("/spec"), 2);
        assert_eq!(lines.line("/spec/modes"), 3);
        assert_eq!(lines.line("/spec/modes/1/type"), 8);
    }
}
