//! What a program needs to run, as far as its first bytes tell (ELF, the format of programs on Linux).

use super::Platform;

const MAGIC: [u8; 4] = [0x7f, b'E', b'L', b'F'];
const CLASS_64: u8 = 2;
const BIG_ENDIAN: u8 = 2;
/// A segment of this type names the loader of a program that is linked dynamically.
const INTERPRETER: u32 = 3;
/// As the format numbers machines, and as Go calls them.
const MACHINES: [(u16, &str); 4] = [(62, "amd64"), (183, "arm64"), (21, "ppc64le"), (22, "s390x")];

/// The platform of a program that needs no libraries.
///
/// # Errors
/// What is wrong with it, and what would be accepted.
pub(super) fn platform(bytes: &[u8]) -> Result<Platform, String> {
    let accepted =
        "accepted is a static program for Linux, as `make build-static` makes one; name it with --binary";
    let none = || format!("it is no program for Linux on 64 bits; {accepted}");
    let header = Header::of(bytes).ok_or_else(none)?;
    let machine = header.number(18, 2).ok_or_else(none)?;
    let known = MACHINES.iter().find(|(number, _)| u64::from(*number) == machine);
    let Some((_, architecture)) = known else {
        return Err(format!(
            "it is for machine {machine} of ELF; {accepted}, for amd64, arm64, ppc64le or s390x"
        ));
    };
    if header.needs_loader().ok_or_else(none)? {
        return Err(format!(
            "it is linked dynamically, and the image holds no libraries; {accepted}"
        ));
    }
    Ok(Platform::linux(architecture))
}

struct Header<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl<'a> Header<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_elf = bytes.starts_with(&MAGIC) && bytes.get(4) == Some(&CLASS_64);
        is_elf.then(|| Self {
            bytes,
            is_big: bytes.get(5) == Some(&BIG_ENDIAN),
        })
    }

    /// A number of so many bytes.
    fn number(&self, at: usize, length: usize) -> Option<u64> {
        let field = self.bytes.get(at..at.checked_add(length)?)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_big {
            field.iter().fold(0, add)
        } else {
            field.iter().rev().fold(0, add)
        })
    }

    /// Whether one of the segments names a loader; none if they are not all there.
    fn needs_loader(&self) -> Option<bool> {
        let start = usize::try_from(self.number(32, 8)?).ok()?;
        let (size, count) = (self.number(54, 2)?, self.number(56, 2)?);
        for at in 0..count {
            let offset = usize::try_from(at * size).ok()?;
            if self.number(start.checked_add(offset)?, 4)? == u64::from(INTERPRETER) {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// A program with one segment, of this type.
    fn program(machine: u16, segment: u32) -> Vec<u8> {
        let is_big = machine == 22;
        let mut bytes = vec![0; 64 + 56];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[CLASS_64, if is_big { 2 } else { 1 }]);
        let mut put = |at: usize, number: u64, length: usize| {
            let field = number.to_le_bytes();
            let field = field[..length].iter().copied();
            let field: Vec<u8> = if is_big {
                field.rev().collect()
            } else {
                field.collect()
            };
            bytes[at..at + length].copy_from_slice(&field);
        };
        put(18, machine.into(), 2);
        put(32, 64, 8);
        put(54, 56, 2);
        put(56, 1, 2);
        put(64, segment.into(), 4);
        bytes
    }

    #[rstest]
    #[case(62, "linux/amd64")]
    #[case(183, "linux/arm64")]
    #[case(22, "linux/s390x")]
    fn a_static_program_tells_its_platform(#[case] machine: u16, #[case] expected: &str) {
        assert_eq!(platform(&program(machine, 1)).unwrap().to_string(), expected);
    }

    #[rstest]
    #[case(program(62, INTERPRETER), "linked dynamically")]
    #[case(program(22, INTERPRETER), "linked dynamically")]
    #[case(program(8, 1), "machine 8")]
    #[case(program(62, 1)[..40].to_vec(), "no program")]
    #[case(program(62, 1)[..64].to_vec(), "no program")]
    #[case(b"#!/bin/sh\n".to_vec(), "no program")]
    fn what_an_image_from_scratch_cannot_run_is_refused(#[case] bytes: Vec<u8>, #[case] why: &str) {
        let error = platform(&bytes).unwrap_err();
        assert!(
            error.contains(why) && error.contains("make build-static"),
            "{error}"
        );
    }
}
