//! The tokens of the admin API: who bears which, and what it grants ([`crate::access`]).
//!
//! The first one stands in the file `admin-token` of the data directory and may do everything; the others are made by those who
//! bear it. Of them only the hash is kept, in the file `tokens.json` (`tokens/file.rs`): a secret is shown once, when it is
//! made. A change is on disk before it is answered, and holds from then on: a token that was deleted is refused by the next
//! request, and kill -9 brings none back.
//!
//! A secret has 256 random bits, so that one round of SHA-256 is enough: nobody can go through them. All hashes are compared in
//! constant time, whichever matches.

mod file;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hedgerow_core::limits;
use hedgerow_core::time::Timestamp;
use hedgerow_io::chance;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use ring::digest::{SHA256, digest};
use subtle::{Choice, ConstantTimeEq};

use self::file::TokenFile;
use crate::access::{Grant, Rights, TopicPrefix};
use crate::auth::AdminToken;
use crate::server::ServerError;

/// The name of the first token.
pub const FIRST: &str = "admin";
/// What secrets begin with, so that they are recognised where they should not be.
const SECRET_PREFIX: &str = "hgt_";

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it grants, and its name.
    pub grant: Arc<Grant>,
    /// SHA-256 of the secret.
    hash: [u8; 32],
    pub created: Timestamp,
    /// From when on it is refused.
    pub expires: Option<Timestamp>,
}

/// A token to be made.
#[derive(Debug)]
pub struct NewToken {
    pub name: Box<str>,
    pub rights: Rights,
    pub prefix: TopicPrefix,
    pub expires: Option<Timestamp>,
}

/// Why a token was not made or deleted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("there is a token \"{0}\" already")]
    Exists(Box<str>),
    #[error("token \"{0}\" does not exist")]
    NotFound(Box<str>),
    #[error(
        "the token \"{FIRST}\" is the one in the file admin-token of the data directory; it is replaced by removing the file \
         and starting the server again"
    )]
    First,
    #[error("there are {0} tokens, no more are possible")]
    Limit(usize),
    #[error("cannot write the tokens to the data directory: {0}")]
    File(std::io::Error),
}

/// All tokens.
pub struct Tokens {
    first: AdminToken,
    first_grant: Arc<Grant>,
    list: RwLock<Arc<Vec<Token>>>,
    /// Held while a change is written; changes follow one another.
    file: Mutex<TokenFile>,
}

impl Tokens {
    /// Reads the tokens in the data directory; makes directory and first token at the first start.
    pub fn load_or_create(data: &Path) -> Result<Self, ServerError> {
        let first = AdminToken::load_or_create(data)?;
        let (file, list) = TokenFile::load(data)?;
        let first_grant = Arc::new(Grant {
            name: FIRST.into(),
            rights: Rights::all(),
            prefix: TopicPrefix::default(),
        });
        Ok(Self {
            first,
            first_grant,
            list: RwLock::new(Arc::new(list)),
            file: Mutex::new(file),
        })
    }

    /// The first token.
    pub const fn first(&self) -> &AdminToken {
        &self.first
    }

    /// What the first token grants: everything.
    pub fn first_grant(&self) -> Arc<Grant> {
        Arc::clone(&self.first_grant)
    }

    /// What the bearer of a request's token may do; `None` if there is no token, or none that is in force.
    pub fn grant(&self, headers: &HeaderMap, now: Timestamp) -> Option<Arc<Grant>> {
        let secret = bearer(headers)?;
        let is_first = self.first.is(secret);
        let hash = hash_of(secret);
        let mut found = None;
        for token in self.list().iter() {
            let is_this: Choice = hash.ct_eq(&token.hash);
            if is_this.into() {
                found = Some(token.clone());
            }
        }
        if is_first {
            return Some(Arc::clone(&self.first_grant));
        }
        let is_in_force = |token: &Token| token.expires.is_none_or(|expires| now < expires);
        found.filter(is_in_force).map(|token| token.grant)
    }

    /// The tokens besides the first, in the order in which they were made.
    pub fn list(&self) -> Arc<Vec<Token>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&list)
    }

    /// Makes a token and returns its secret. Blocks while it is written.
    pub fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokenError> {
        let secret = format!(
            "{SECRET_PREFIX}{}",
            URL_SAFE_NO_PAD.encode(chance::bytes::<32>())
        );
        let token = Token {
            grant: Arc::new(Grant {
                name: new.name,
                rights: new.rights,
                prefix: new.prefix,
            }),
            hash: hash_of(secret.as_bytes()),
            created: now,
            expires: new.expires,
        };
        self.change(|list| {
            let name = &token.grant.name;
            if name.eq_ignore_ascii_case(FIRST) {
                return Err(TokenError::First);
            }
            if list.iter().any(|token| token.is_named(name)) {
                return Err(TokenError::Exists(name.clone()));
            }
            if list.len() >= limits::TOKENS_MAX {
                return Err(TokenError::Limit(list.len()));
            }
            list.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    /// Deletes a token: from now on it is refused. Blocks while that is written.
    pub fn delete(&self, name: &str) -> Result<(), TokenError> {
        if name.eq_ignore_ascii_case(FIRST) {
            return Err(TokenError::First);
        }
        self.change(|list| {
            let before = list.len();
            list.retain(|token| !token.is_named(name));
            if list.len() == before {
                return Err(TokenError::NotFound(name.into()));
            }
            Ok(())
        })
    }

    /// Writes a changed list, then lets it hold. Whatever fails, what holds is what the file says.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Token>) -> Result<(), TokenError>,
    ) -> Result<(), TokenError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let former = self.list();
        let mut list = former.as_ref().clone();
        change(&mut list)?;
        let written = file.replace(&former, &list);
        if written
            .as_ref()
            .map_or_else(|failed| failed.is_there, |()| true)
        {
            let mut current = self.list.write().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::new(list);
        }
        written.map_err(|failed| TokenError::File(failed.error))
    }
}

impl Token {
    fn is_named(&self, name: &str) -> bool {
        self.grant.name.eq_ignore_ascii_case(name)
    }
}

/// The token that a request bears.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

fn hash_of(secret: &[u8]) -> [u8; 32] {
    let digest = digest(&SHA256, secret);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;
