//! Whoever looks on while something long is done.

/// Is told how a push or a pull gets on. All of it may be ignored.
pub trait Watch: Send + Sync {
    /// A part begins, of so many bytes.
    fn begins(&self, part: &str, bytes: u64);
    /// So many more bytes of it are done.
    fn moves(&self, bytes: u64);
    /// The part is done, and how.
    fn ends(&self, how: &str);
    /// Something else that a person wants to know, such as why there is a pause.
    fn notes(&self, what: &str);
}

/// Nobody.
impl Watch for () {
    fn begins(&self, _: &str, _: u64) {}
    fn moves(&self, _: u64) {}
    fn ends(&self, _: &str) {}
    fn notes(&self, _: &str) {}
}
