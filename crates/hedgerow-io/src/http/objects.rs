//! Lets the crate `object_store` send its requests over our client, and so over guarded connections only: what leads into
//! a private network is refused to it as to a webhook.

use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::limits;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use url::Url;

use super::answer::BodyError;
use super::client::{Client, SendError};
use super::target::{Target, TargetError};

/// What an object store's client is built with: `with_http_connector`.
///
/// The client's own options for connections are without effect: guard, roots and bounds are our client's. Each request has a
/// deadline for the whole exchange. Whether a request is made again is up to the store's client, which is told not to: the
/// engine has a schedule.
#[derive(Debug, Clone)]
pub struct ObjectHttp {
    client: Client,
    time_max: Duration,
}

impl ObjectHttp {
    /// Sends over `client`; an exchange that takes longer than `time_max` has failed.
    #[must_use]
    pub const fn new(client: Client, time_max: Duration) -> Self {
        Self { client, time_max }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let url: Url = head.uri.to_string().parse().map_err(not_a_target)?;
        let target = Target::from_url(&url).map_err(not_a_target)?;
        let body = body.collect().await?.to_bytes();
        let request = http::Request::from_parts(head, body);
        let answer = self.client.send(&target, request).await.map_err(failure)?;
        let body = answer.body.collect(limits::OBJECT_ANSWER_BYTES_MAX).await;
        let body: Bytes = body.map_err(|error| {
            let kind = match error {
                BodyError::TooLong { .. } => HttpErrorKind::Decode,
                _ => HttpErrorKind::Interrupted,
            };
            HttpError::new(kind, error)
        })?;
        let mut response = HttpResponse::new(HttpResponseBody::from(body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

#[async_trait::async_trait]
impl HttpService for ObjectHttp {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let exchange = tokio::time::timeout(self.time_max, self.exchange(request));
        exchange
            .await
            .unwrap_or_else(|late| Err(HttpError::new(HttpErrorKind::Timeout, late)))
    }
}

impl HttpConnector for ObjectHttp {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn not_a_target(error: impl Into<NoTarget>) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error.into())
}

#[derive(Debug, thiserror::Error)]
enum NoTarget {
    #[error(transparent)]
    Url(#[from] url::ParseError),
    #[error(transparent)]
    Target(#[from] TargetError),
}

fn failure(error: SendError) -> HttpError {
    let kind = match error {
        SendError::Resolution(_) | SendError::Connect(_) | SendError::TooManyConnections { .. } => {
            HttpErrorKind::Connect
        }
        SendError::Reset(_) => HttpErrorKind::Interrupted,
        SendError::Protocol(_) => HttpErrorKind::Decode,
        SendError::Denied(_) | SendError::Tls(_) => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
