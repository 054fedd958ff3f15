//! A line of the log for each change of what is to be said, and none for its repetition.

/// What was said last of one matter.
#[derive(Debug, Default)]
pub(super) struct Told(Option<String>);

impl Told {
    /// Whether this differs from what was said last. From here on it is what was said last.
    pub(super) fn is_news(&mut self, said: &str) -> bool {
        let is_news = self.0.as_deref() != Some(said);
        if is_news {
            self.0 = Some(said.to_owned());
        }
        is_news
    }

    /// All is well: the same trouble would be news again. Whether there was any.
    pub(super) fn is_over(&mut self) -> bool {
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
            .map(|said| told.is_news(said))
            .collect();
        assert_eq!(news, [true, false, true, false, true]);
        assert!(told.is_over() && !told.is_over());
        assert!(told.is_news("a"));
    }
}
