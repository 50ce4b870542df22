//! An authority that issues certificates and revokes them.
//!
//! Shared with the tests of `qsm` and of `qsm-cli`.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test file uses its own part of this module"
)]

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

/// An authority, trusted by itself or issued by another.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate, and the key that it is for, in PEM.
pub struct Issued {
    pub certificate: String,
    pub private_key: String,
    pub serial: u64,
}

fn params_of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    /// One that an operator may trust.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let params = params_of_authority(name);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// One that this one has issued.
    pub fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = params_of_authority(name);
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a new key with these URIs, which holds from 2020 to 2090.
    pub fn issue(&self, serial: u64, uris: &[&str]) -> Issued {
        self.issue_with(serial, uris, |_| {})
    }

    /// The same, changed.
    pub fn issue_with(
        &self,
        serial: u64,
        uris: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        self.issue_for(&key, serial, uris, change)
    }

    /// The same for this key.
    pub fn issue_for(
        &self,
        key: &KeyPair,
        serial: u64,
        uris: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut params = CertificateParams::new([]).unwrap();
        let names = uris
            .iter()
            .map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names = names.collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2090, 1, 1);
        change(&mut params);
        Issued {
            certificate: params.signed_by(key, &self.issuer).unwrap().pem(),
            private_key: key.serialize_pem(),
            serial,
        }
    }

    /// A list of what it has revoked, in PEM.
    pub fn revoke(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2022, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}
