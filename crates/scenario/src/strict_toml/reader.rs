//! The form of a reader.

/// Reads the value of a key, and describes the kind of value that it accepts.
#[derive(Debug, Clone, Copy)]
pub struct Reader<R, K> {
    /// Reads and checks a value.
    pub read: R,
    /// The kind of value.
    pub kind: K,
}
