//! What a person sees of something that takes a while: a line for each part, with a bar while it moves. Only on a terminal; in a pipe, notes alone.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::olm::oci::Watch;

/// How often the bar is drawn at most.
const EVERY: Duration = Duration::from_millis(100);
/// The bar, in characters.
const WIDTH: u64 = 30;
/// So much of a part's name is shown, in characters: enough of a digest.
const NAME: usize = 19;

/// Tells on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    is_seen: bool,
    part: Mutex<Part>,
}

#[derive(Debug)]
struct Part {
    name: String,
    done: u64,
    all: u64,
    drawn: Instant,
}

impl Progress {
    pub(super) fn shared() -> Arc<Self> {
        let part = Part {
            name: String::new(),
            done: 0,
            all: 0,
            drawn: Instant::now(),
        };
        Arc::new(Self {
            is_seen: io::stderr().is_terminal(),
            part: Mutex::new(part),
        })
    }

    /// Changes the part and writes what is to be shown of it, if anybody sees it.
    fn show(&self, change: impl FnOnce(&mut Part) -> Option<String>) {
        if !self.is_seen {
            return;
        }
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = change(&mut part) {
            // Who cannot be told anything goes on all the same
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        }
    }
}

impl Watch for Progress {
    fn begins(&self, name: &str, bytes: u64) {
        self.show(|part| {
            *part = Part {
                name: name.chars().take(NAME).collect(),
                done: 0,
                all: bytes,
                drawn: Instant::now(),
            };
            Some(part.bar())
        });
    }

    fn moves(&self, bytes: u64) {
        self.show(|part| {
            part.done += bytes;
            let is_due = part.drawn.elapsed() >= EVERY;
            is_due.then(|| {
                part.drawn = Instant::now();
                part.bar()
            })
        });
    }

    fn ends(&self, how: &str) {
        self.show(|part| Some(format!("{:NAME$} {:>10} {how}\n", part.name, size(part.all))));
    }

    fn notes(&self, what: &str) {
        let clear = if self.is_seen { "\r\x1b[K" } else { "" };
        let _ = writeln!(io::stderr().lock(), "{clear}note: {what}");
    }
}

impl Part {
    fn bar(&self) -> String {
        let filled = match self.all {
            0 => WIDTH,
            all => (self.done.min(all)).saturating_mul(WIDTH) / all,
        };
        let filled = usize::try_from(filled).unwrap_or_default();
        let width = usize::try_from(WIDTH).unwrap_or_default();
        format!(
            "{:NAME$} {:>10} [{:<width$}] {}",
            self.name,
            size(self.all),
            "=".repeat(filled),
            size(self.done)
        )
    }
}

/// As people tell it.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 0, "==============================")]
    #[case(0, 10, "                              ")]
    #[case(5, 10, "===============               ")]
    #[case(99, 10, "==============================")]
    fn a_bar_is_as_long_as_what_is_done(#[case] done: u64, #[case] all: u64, #[case] bar: &str) {
        let part = Part {
            name: "a".to_owned(),
            done,
            all,
            drawn: Instant::now(),
        };
        assert!(part.bar().contains(&format!("[{bar}]")), "{}", part.bar());
    }

    #[rstest]
    #[case(1023, "1023 B")]
    #[case(1536, "1.5 KiB")]
    #[case(3 << 20, "3.0 MiB")]
    fn sizes_are_told_as_people_tell_them(#[case] bytes: u64, #[case] expected: &str) {
        assert_eq!(size(bytes), expected);
    }
}
