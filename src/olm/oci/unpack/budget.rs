use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Reads no more than a number of bytes, which somebody else sets and looks at.
pub(super) struct Budget<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R> Budget<R> {
    pub(super) fn new(inner: R, left: Rc<Cell<u64>>) -> Self {
        Self { inner, left }
    }
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)? as u64;
        let left = self.left.get().checked_sub(read);
        let left = left.ok_or_else(|| io::Error::other("uncompressed, it is more than is accepted"))?;
        self.left.set(left);
        Ok(usize::try_from(read).unwrap_or_default())
    }
}
