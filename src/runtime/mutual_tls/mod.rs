//! HTTPS between parts of the product that show each other certificates of one authority, which vouches for nobody else.
//!
//! What somebody may do follows from the one organisational unit in the certificate, so that whoever holds any certificate of the authority cannot play
//! every part: a client trusts a server only if it is of the unit that the client names.

mod client;
mod credentials;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

pub use client::{Answer, CallError, Client, Limit};
pub use credentials::{Credentials, CredentialsError};

/// The organisational unit in a certificate. `None` when there is none, or more than one: then it is not clear which counts.
pub fn unit_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut units = parsed.subject().iter_organizational_unit();
    let unit = units.next()?.as_str().ok()?.to_owned();
    units.next().is_none().then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use rstest::rstest;

    #[rstest]
    #[case::none(&[], None)]
    #[case::one(&["instance"], Some("instance"))]
    #[case::two_that_differ(&["instance", "operator"], None)]
    fn a_certificate_is_of_one_unit_or_of_none(#[case] units: &[&str], #[case] expected: Option<&str>) {
        let mut params = CertificateParams::default();
        for (at, unit) in units.iter().enumerate() {
            // The library keeps one value of each type; the second is written under the type's number.
            let kind = if at == 0 {
                DnType::OrganizationalUnitName
            } else {
                DnType::CustomDnType(vec![2, 5, 4, 11])
            };
            params.distinguished_name.push(kind, *unit);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(unit_of(certificate.der()).as_deref(), expected);
    }

    #[test]
    fn what_is_no_certificate_is_of_no_unit() {
        assert_eq!(unit_of(&CertificateDer::from(vec![0x30, 0x82, 0xff])), None);
    }
}
