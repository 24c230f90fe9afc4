//! Takes paths and queries apart; what cannot be is refused in the API's own shape.

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The names in a path, decoded.
pub struct Names<T>(pub T);

impl<T, S> FromRequestParts<S> for Names<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(error) => {
                let message = format!("path: {}", error.body_text());
                Err(ApiError::invalid(
                    message,
                    "names have letters, digits and hyphens",
                ))
            }
        }
    }
}

/// The parameters of a query in their order, decoded.
pub struct Parameters(pub Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(error) => {
                let message = format!("query: {}", error.body_text());
                Err(ApiError::invalid(
                    message,
                    "correct the query of the request",
                ))
            }
        }
    }
}
