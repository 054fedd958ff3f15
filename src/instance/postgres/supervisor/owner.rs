//! The owner's password, as it is mounted.

use std::path::Path;

use super::super::secrets::Password;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The last that was of use: one that is of none changes nothing.
    password: Option<Password>,
    /// Why the present one is of none.
    pub(super) unusable: Option<String>,
}

impl Owner {
    /// The password, if there is one that is of use; `None` before it was looked at.
    pub(super) fn password(&self) -> Option<Option<Password>> {
        let is_known = self.password.is_some() || self.unusable.is_some();
        is_known.then(|| self.password.clone())
    }

    /// Reads it.
    pub(super) fn look(&mut self, file: &Path) {
        let read = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"));
        let read = read.and_then(|value| Password::of(&value).map_err(|what| format!("is {what}")));
        match read {
            Ok(password) => (self.password, self.unusable) = (Some(password), None),
            Err(why) => {
                let why = format!("the owner's password, the key password of its Secret, {why}");
                if self.unusable.as_ref() != Some(&why) {
                    tracing::warn!(why, "the owner's password stays as it is");
                }
                self.unusable = Some(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_of_no_use_is_told_and_the_one_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let mut owner = Owner::default();
        assert_eq!(owner.password(), None);
        owner.look(&file);
        assert_eq!(owner.password(), Some(None), "all else is made without it");
        std::fs::write(&file, "s3cret").unwrap();
        owner.look(&file);
        assert_eq!(
            (&owner.password, &owner.unusable),
            (&Some(Password::new("s3cret")), &None)
        );
        let values: [(&[u8], &str); 3] = [
            (b"", "is empty"),
            (b"\xff", "is not text"),
            (b"a\0b", "is not text"),
        ];
        for (value, why) in values {
            std::fs::write(&file, value).unwrap();
            owner.look(&file);
            assert_eq!(owner.password, Some(Password::new("s3cret")));
            let told = owner.unusable.as_ref().unwrap();
            assert!(told.ends_with(why), "{told}");
        }
        std::fs::remove_file(&file).unwrap();
        owner.look(&file);
        assert_eq!(owner.password, Some(Password::new("s3cret")));
        assert!(owner.unusable.unwrap().contains("cannot be read: No such file"));
    }
}
