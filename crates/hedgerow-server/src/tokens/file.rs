//! The file of the tokens: JSON with names, rights and hashes, for its owner only. There is either the old one or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Token;
use crate::access::{Grant, Right, TopicPrefix};
use crate::server::ServerError;

/// Its name in the data directory.
const NAME: &str = "tokens.json";

/// Where the tokens are kept.
pub struct TokenFile {
    data: PathBuf,
    /// Makes a directory's entries durable. A seam: no file system fails there when a test wants it to.
    sync_directory: fn(&Path) -> io::Result<()>,
}

/// A list that is not known to be durable.
#[derive(Debug)]
pub struct NotWritten {
    pub error: io::Error,
    /// Whether the file holds it all the same.
    pub is_there: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    tokens: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredToken {
    name: String,
    /// SHA-256 in base64.
    hash: String,
    rights: Vec<String>,
    topic_prefix: String,
    created: Timestamp,
    expires: Option<Timestamp>,
}

impl TokenFile {
    /// Reads the file if there is one.
    pub fn load(data: &Path) -> Result<(Self, Vec<Token>), ServerError> {
        let path = data.join(NAME);
        let unreadable = |reason: String| ServerError::Tokens {
            path: path.clone(),
            reason,
        };
        let list = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(error.to_string())),
            Ok(json) => {
                let stored: Stored =
                    serde_json::from_slice(&json).map_err(|error| unreadable(error.to_string()))?;
                let tokens = stored.tokens.into_iter().map(StoredToken::read);
                let tokens: Option<Vec<Token>> = tokens.collect();
                tokens.ok_or_else(|| unreadable("a token in it cannot be read".to_owned()))?
            }
        };
        let data = data.to_owned();
        let file = Self {
            data,
            sync_directory,
        };
        Ok((file, list))
    }

    /// The same file in a directory that cannot be made durable.
    #[cfg(test)]
    pub fn fail_to_sync(&mut self) {
        self.sync_directory = |_| Err(io::Error::other("no more space"));
    }

    /// Writes a list in place of the former one. If it cannot be made durable, the former one is put back.
    pub fn replace(&self, former: &[Token], list: &[Token]) -> Result<(), NotWritten> {
        let refused = |error, is_there| NotWritten { error, is_there };
        self.put(list).map_err(|error| refused(error, false))?;
        (self.sync_directory)(&self.data).map_err(|error| {
            // Which of the two a crash leaves nobody knows; until then one of them holds, here and in the file.
            let is_put_back = self.put(former).is_ok();
            refused(error, !is_put_back)
        })
    }

    /// Writes the list beside its place and moves it there.
    fn put(&self, list: &[Token]) -> io::Result<()> {
        let tokens = list.iter().map(StoredToken::of).collect();
        let json = serde_json::to_vec_pretty(&Stored { tokens })?;
        let beside = self.data.join(format!("{NAME}.new"));
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(&json)?;
        file.sync_all()?;
        fs::rename(&beside, self.data.join(NAME))
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl StoredToken {
    fn of(token: &Token) -> Self {
        let rights = token.grant.rights.names();
        Self {
            name: token.grant.name.to_string(),
            hash: STANDARD.encode(token.hash),
            rights: rights.into_iter().map(str::to_owned).collect(),
            topic_prefix: token.grant.prefix.as_str().to_owned(),
            created: token.created,
            expires: token.expires,
        }
    }

    /// A right that this version does not know is no reason to grant the others.
    fn read(self) -> Option<Token> {
        let rights = self.rights.iter().map(|name| Right::parse(name));
        Some(Token {
            grant: Arc::new(Grant {
                name: self.name.into(),
                rights: rights.collect::<Option<_>>()?,
                prefix: TopicPrefix::parse(&self.topic_prefix).ok()?,
            }),
            hash: STANDARD.decode(self.hash).ok()?.try_into().ok()?,
            created: self.created,
            expires: self.expires,
        })
    }
}
