//! As whom PostgreSQL runs in tests.

/// The user for PostgreSQL, which does not run as root.
pub fn user() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let id = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        line.split(':').nth(2)?.parse().ok()
    };
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| id("postgres").or_else(|| id("nobody")).unwrap())
}
