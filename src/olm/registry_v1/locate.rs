//! The line of a field, by the path of keys that leads to it: the reader of YAML keeps no places.

/// A line without its indentation.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// The line, counted from `first`, of what a JSON pointer leads to; of the last part of the way that is found where it does not lead on, such as in
/// a list within brackets.
pub(super) fn line_of(document: &str, first: usize, pointer: &str) -> usize {
    let all: Vec<Line<'_>> = document
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let text = line.trim_start();
            let is_content = !text.is_empty() && !text.starts_with('#') && !text.starts_with("---");
            is_content.then_some(Line {
                number: first + index,
                indent: line.len() - text.len(),
                text,
            })
        })
        .collect();
    let mut line = all.first().map_or(first, |line| line.number);
    let mut part = match all.split_first() {
        // The braces around an object of JSON
        Some((brace, rest)) if brace.text == "{" => rest.to_vec(),
        _ => all,
    };
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        let Some(within) = entry(&part, &key) else {
            return line;
        };
        line = within.first().map_or(line, |found| found.number);
        part = within;
        if part.first().is_some_and(|found| !is_item(found.text)) {
            part.remove(0);
        }
    }
    line
}

/// The lines of one entry of a map or list. Those of a list's begin with what follows its dash.
fn entry<'a>(lines: &[Line<'a>], key: &str) -> Option<Vec<Line<'a>>> {
    let indent = lines.first()?.indent;
    let is_index =
        |line: &Line<'_>| line.indent == indent && (is_item(line.text) || line.text.starts_with('{'));
    let starts: Vec<usize> = match key.parse::<usize>() {
        Ok(_) if lines.first().is_some_and(is_index) => {
            (0..lines.len()).filter(|&at| is_index(&lines[at])).collect()
        }
        _ => (0..lines.len())
            .filter(|&at| lines[at].indent == indent && has_key(lines[at].text, key))
            .collect(),
    };
    let is_list = lines.first().is_some_and(is_index);
    let start = match key.parse::<usize>() {
        Ok(index) if is_list => *starts.get(index)?,
        _ => *starts.first()?,
    };
    let rest = &lines[start + 1..];
    // A list may stand at the indentation of its key
    let goes_on =
        |line: &&Line<'a>| line.indent > indent || !is_list && line.indent == indent && is_item(line.text);
    let mut within = vec![lines[start]];
    within.extend(rest.iter().take_while(goes_on));
    if is_list {
        let dashed = within[0].text;
        let inner = dashed.trim_start_matches('-').trim_start();
        let opened = if dashed.starts_with('{') { "" } else { inner };
        within[0] = Line {
            number: within[0].number,
            indent: indent + dashed.len() - inner.len(),
            text: opened,
        };
        // What is left is the map or list within: its first line counts as one of its own
        let head = Line {
            text: "",
            ..within[0]
        };
        within.insert(0, head);
        if opened.is_empty() {
            within.remove(1);
        }
    }
    Some(within)
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn has_key(text: &str, key: &str) -> bool {
    let bare = text.strip_prefix(['"', '\'']).unwrap_or(text);
    let rest = bare.strip_prefix(key);
    rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with(':'))
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
  'last': 1
";

    #[test]
    fn a_pointer_has_its_line() {
        let line = |pointer| line_of(YAML, 10, pointer);
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
            ("/spec/modes/7/type", 19),
            ("/spec/nowhere/at/all", 18),
        ];
        for (pointer, expected) in expected {
            assert_eq!(line(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn so_it_has_in_json_that_is_written_in_lines() {
        let json = "{\n  \"spec\": {\n    \"modes\": [\n      {\n        \"type\": \"One\"\n      },\n      {\n        \"type\": \"Two\"\n      }\n    ]\n  }\n}\n";
        assert_eq!(line_of(json, 1, "/spec"), 2);
        assert_eq!(line_of(json, 1, "/spec/modes"), 3);
        assert_eq!(line_of(json, 1, "/spec/modes/1/type"), 8);
    }
}
