//! The keys with which a session signs its jobs and a worker its results.

use crate::error::Error;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// Bytes of a public key.
pub(super) const KEY_BYTES: usize = 32;

/// Bytes of a signature.
pub(super) const SIGNATURE_BYTES: usize = 64;

/// The key of this user on this machine.
pub struct OwnKey(Ed25519KeyPair);

/// A public key: whom its owner is to trust.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; KEY_BYTES]);

impl OwnKey {
    /// Reads the key, and makes it when it is first asked for.
    pub fn open() -> anyhow::Result<Self> {
        // Systems without a folder for state have one for data.
        let base = dirs::state_dir().or_else(dirs::data_local_dir);
        Self::at(&base.context("There is no state folder: set XDG_STATE_HOME or HOME")?.join("optloop/fleet.key"))
    }

    fn at(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            make(path).with_context(|| format!("Failed to write {}", path.display()))?;
        }
        let bytes = std::fs::read(path).with_context(|| format!("Failed to read {}", path.display()))?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes);
        let refused = |_| anyhow::anyhow!("{} holds no key: remove it, and another one is made", path.display());
        pair.map(Self).map_err(refused)
    }

    /// Makes a key that is not kept.
    #[cfg(test)]
    pub(super) fn at_random() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    /// Returns its public part.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs a message.
    pub(super) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        bytes
    }
}

/// Writes a new key, which only the user can read. If another process was faster, its key stays.
fn make(path: &Path) -> anyhow::Result<()> {
    let folder: PathBuf = path.parent().map_or_else(|| ".".into(), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let document = document.map_err(|_| anyhow::anyhow!("The system gives no random numbers"))?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(document.as_ref())?;
    match file.persist_noclobber(path) {
        Err(error) if !path.exists() => Err(error.error.into()),
        _ => Ok(()),
    }
}

impl PublicKey {
    /// Makes a key of its bytes.
    pub(super) fn of(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(*bytes)
    }

    /// Returns its bytes.
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Tells whether its owner has signed a message.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused =
            || format!("`{text}` is not a key: it has 64 hexadecimal digits, as `optloop workers --key` prints");
        if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
            return Err(refused().into());
        }
        let mut bytes = [0; KEY_BYTES];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| refused())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for PublicKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_and_signs_only_what_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("optloop/fleet.key");
        let (first, again) = (OwnKey::at(&path).unwrap(), OwnKey::at(&path).unwrap());
        assert_eq!(first.public(), again.public());
        let key: PublicKey = first.public().to_string().parse().unwrap();
        let signature = again.sign(b"a job");
        assert!(key.has_signed(b"a job", &signature) && !key.has_signed(b"a jab", &signature));
        let other = OwnKey::at(&folder.path().join("other.key")).unwrap();
        assert!(!other.public().has_signed(b"a job", &signature));
        insta::assert_snapshot!("key".parse::<PublicKey>().unwrap_err(), @"`key` is not a key: it has 64 hexadecimal digits, as `optloop workers --key` prints");
    }

    #[cfg(unix)]
    #[test]
    fn only_its_user_can_read_a_key() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.key");
        OwnKey::at(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
