//! Lines of a document by what stands in them.

/// The line, from 1, of the first that has this text; the first where none has. `first` is the line at which the document begins.
pub(super) fn line_of(document: &str, first: usize, text: &str) -> usize {
    let found = if text.is_empty() {
        None
    } else {
        document.find(text)
    };
    first + found.map_or(0, |at| document[..at].matches('\n').count())
}

/// The lines of things that follow each other, of which each has its text after `key`, and after the one before.
pub(super) fn lines_of<'a>(
    document: &str,
    first: usize,
    key: &str,
    texts: impl Iterator<Item = &'a str>,
) -> Vec<usize> {
    let (mut from, mut line) = (0, first);
    let mut lines = Vec::new();
    for text in texts {
        if let Some(at) = after(document, from, key, text) {
            line += document[from..at].matches('\n').count();
            from = at + text.len();
        }
        lines.push(line);
    }
    lines
}

/// Where a text next stands in one line with a key before it.
fn after(document: &str, from: usize, key: &str, text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let mut begin = from;
    loop {
        let at = begin + document.get(begin..)?.find(text)?;
        let line = document[..at].rfind('\n').map_or(0, |end| end + 1);
        if document[line..at].contains(key) {
            return Some(at);
        }
        begin = at + text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_its_line_and_what_is_not_there_that_of_the_one_before() {
        let document = "schema: olm.channel\nentries:\n- name: a.v2\n  replaces: a.v1\n- name: a.v1\n";
        let lines = lines_of(document, 10, "name", ["a.v2", "a.v1", "a.v0"].into_iter());
        assert_eq!(lines, [12, 14, 14]);
        assert_eq!(line_of(document, 10, "replaces"), 13);
        assert_eq!(line_of(document, 10, "nowhere"), 10);
    }
}
