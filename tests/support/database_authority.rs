//! An authority that signs the certificates of a database's instances, and of those who talk to them.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use roadstead::api::database::agent::INSTANCE_ROLE;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("authority")
    }

    pub fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// The authority itself, for those who trust it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Writes what the operator would mount: a certificate of an instance, in this name and for this host.
    pub fn mount(&self, folder: &Path, name: &str, host: &str) {
        let (certificate, key) = self.issue(name, INSTANCE_ROLE, host);
        std::fs::create_dir_all(folder).unwrap();
        let files = [
            ("ca.crt", &self.certificate),
            ("tls.crt", &certificate),
            ("tls.key", &key),
        ];
        for (name, content) in files {
            std::fs::write(folder.join(name), content).unwrap();
        }
    }

    /// A certificate for both sides of a connection, and its key.
    pub fn issue(&self, name: &str, unit: &str, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationalUnitName, unit);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}
