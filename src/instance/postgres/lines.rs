//! What a program prints, line by line.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line that is kept whole, in bytes: a statement in PostgreSQL's log may be as long as memory.
const LONGEST: usize = 16 * 1024;

/// Hands every line to `each` until the end. What cannot be read any more is as good as the end.
pub(super) async fn each_line(mut source: impl AsyncRead + Unpin, mut each: impl FnMut(&str)) {
    let (mut buffer, mut line) = (vec![0; 8 * 1024], Vec::new());
    let mut tell = |line: &mut Vec<u8>| {
        each(String::from_utf8_lossy(line).trim_end());
        line.clear();
    };
    while let Ok(read @ 1..) = source.read(&mut buffer).await {
        for byte in &buffer[..read] {
            match byte {
                b'\n' => tell(&mut line),
                byte => line.push(*byte),
            }
            if line.len() == LONGEST {
                tell(&mut line);
            }
        }
    }
    if !line.is_empty() {
        tell(&mut line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_told_and_long_ones_in_pieces() {
        let text = format!("one\n\ntwo\r\n{}\nend", "x".repeat(LONGEST + 1));
        let mut lengths = Vec::new();
        each_line(text.as_bytes(), |line| lengths.push(line.len())).await;
        assert_eq!(lengths, [3, 0, 3, LONGEST, 1, 3]);
    }
}
