//! What reading a text takes: estimated from the text, so that it can be refused before it is read.

/// What one object may take to read, in bytes, by [`cost`]. The greatest that the schema of any kind here admits takes less.
pub const MAX_OBJECT: usize = 3 << 20;

/// About what a text of JSON takes as a tree, in bytes: a map has room for eleven entries from the first on, and each entry and element is
/// a few words and an allocation. `[{},{},...]` takes more than two hundred times its length.
pub fn cost(text: &str) -> usize {
    const MAP: usize = 640;
    const ENTRY: usize = 160;
    const ELEMENT: usize = 96;
    let (mut cost, mut in_text, mut is_escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        if in_text {
            in_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' => cost += MAP,
            b':' => cost += ENTRY,
            b'[' | b',' => cost += ELEMENT,
            _ => {}
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_costs_its_length_whatever_is_in_it() {
        let text = format!(r#""\"{}""#, "{[,:".repeat(1000));
        assert_eq!(cost(&text), text.len());
    }
}
