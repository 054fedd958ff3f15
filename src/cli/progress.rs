//! What a person sees of something that takes a while: a line for each part, with a bar while it moves. Only on a terminal; in a pipe, notes alone.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use indicatif::{BinaryBytes, MultiProgress, ProgressBar, ProgressStyle};

use crate::olm::oci::Watch;

/// There is one, on standard error, and each of those that move at the same time has a line of its own.
static TERMINAL: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
/// So much of a part's name is shown, in characters: enough of a digest.
const NAME: usize = 19;

/// Tells of one part after the other.
#[derive(Debug)]
pub(super) struct Progress(Mutex<ProgressBar>);

impl Progress {
    pub(super) fn shared() -> Arc<Self> {
        Arc::new(Self(Mutex::new(ProgressBar::hidden())))
    }

    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was not ended has failed, and why is told.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar().finish_and_clear();
    }
}

impl Watch for Progress {
    fn begins(&self, name: &str, bytes: u64) {
        let name: String = name.chars().take(NAME).collect();
        let bar = ProgressBar::new(bytes).with_style(style()).with_prefix(name);
        let bar = TERMINAL.add(bar);
        bar.tick();
        let before = std::mem::replace(&mut *self.bar(), bar);
        before.finish_and_clear();
    }

    fn moves(&self, bytes: u64) {
        self.bar().inc(bytes);
    }

    fn ends(&self, how: &str) {
        let bar = self.bar();
        bar.finish_and_clear();
        let size = BinaryBytes(bar.length().unwrap_or_default()).to_string();
        // Who cannot be told anything goes on all the same
        let _ = TERMINAL.println(format!("{:NAME$} {size:>10} {how}", bar.prefix()));
    }

    fn notes(&self, what: &str) {
        TERMINAL.suspend(|| eprintln!("note: {what}"));
    }
}

fn style() -> ProgressStyle {
    let template = format!("{{prefix:{NAME}}} {{binary_total_bytes:>10}} [{{bar:30}}] {{binary_bytes}}");
    let style = ProgressStyle::with_template(&template);
    style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=  ")
}
