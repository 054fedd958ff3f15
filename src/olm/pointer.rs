//! JSON pointers: how a rule names the field that it is about.

/// A key as a pointer has it.
pub(in crate::olm) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A step of a pointer as the key is.
pub(in crate::olm) fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// A pointer as people write a field, such as `spec.names.kind`.
pub(in crate::olm) fn dotted(pointer: &str) -> String {
    unescaped(&pointer.trim_start_matches('/').replace('/', "."))
}
