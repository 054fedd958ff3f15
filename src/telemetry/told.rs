//! A line of the log for each change of what is to be said, and none for its repetition.

/// What was said last of one matter.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<String>);

impl Told {
    /// Takes note of what is to be said. Whether it is news: it differs from what was said last.
    pub(crate) fn note(&mut self, said: &str) -> bool {
        let is_news = self.0.as_deref() != Some(said);
        if is_news {
            self.0 = Some(said.to_owned());
        }
        is_news
    }

    /// All is well: whatever comes is news again. Whether there was anything to be said before.
    pub(crate) fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_until_something_else_was() {
        let mut told = Told::default();
        let news: Vec<bool> = ["a", "a", "b", "b", "a"]
            .into_iter()
            .map(|said| told.note(said))
            .collect();
        assert_eq!(news, [true, false, true, false, true]);
        assert!(told.clear() && !told.clear());
        assert!(told.note("a"));
    }
}
