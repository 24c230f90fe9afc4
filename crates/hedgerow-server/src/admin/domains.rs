//! Domains and their topics (section 1.11). A domain is declared, and has keys, as a topic.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::spec::TopicSpec;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::domain_topics::{DomainTopicInfo, DomainTopicPage, DomainTopicQuery};
use hedgerow_dialect::event_grid::{domain_path, domain_topic_path};
use hedgerow_store::catalog::Topic;
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::{Bearer, Names, PageQuery, Source};
use super::json_body;
use super::topics::{declare, listed};
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn put(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let checked = TopicSpec::check_domain(&json_body(&app, request).await?)?;
    declare(&app, &name, checked).await
}

pub async fn list(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
) -> Result<Json<Value>, ApiError> {
    listed(&app, &grant, Topic::is_domain).await
}

pub async fn topics(
    State(app): State<SharedApp>,
    Source(domain): Source,
    query: PageQuery,
) -> Result<Json<Value>, ApiError> {
    let query = query.of_one_list()?;
    let after = query.after(|text| text.parse::<DomainTopicName>().ok().map(Some))?;
    let query = DomainTopicQuery {
        domain,
        after,
        limit: query.limit,
    };
    let DomainTopicPage { topics, next } = app
        .engine()?
        .ask(|answer| Command::DomainTopics { query, answer })
        .await?;
    let value: Vec<Value> = topics.iter().map(shown_topic).collect();
    let next = next.map(String::from);
    Ok(Json(json!({ "value": value, "next": next })))
}

pub async fn put_topic(
    State(app): State<SharedApp>,
    Names((domain, name)): Names<(String, String)>,
    Source(_): Source,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let body = json_body(&app, request).await?;
    if body.as_object().is_none_or(|members| !members.is_empty()) {
        return Err(ApiError::member(
            "",
            "must be empty: a domain topic has nothing but its name",
        ));
    }
    let name: DomainTopicName = name.parse()?;
    let put = |answer| Command::PutDomainTopic {
        domain,
        name,
        answer,
    };
    let (info, is_new) = app.engine()?.ask(put).await?;
    if is_new {
        tracing::info!(domain = info.domain, topic = %info.name, "domain topic created");
    }
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(shown_topic(&info))))
}

pub async fn get_topic(
    State(app): State<SharedApp>,
    Names((domain, name)): Names<(String, String)>,
    Source(_): Source,
) -> Result<Json<Value>, ApiError> {
    let get = |answer| Command::DomainTopic {
        domain,
        name,
        answer,
    };
    Ok(Json(shown_topic(&app.engine()?.ask(get).await?)))
}

pub async fn delete_topic(
    State(app): State<SharedApp>,
    Names((domain, name)): Names<(String, String)>,
    Source(source): Source,
) -> Result<StatusCode, ApiError> {
    let delete = |answer| Command::DeleteDomainTopic {
        domain,
        name,
        answer,
    };
    app.engine()?.ask(delete).await?;
    tracing::info!(topic = source, "domain topic deleted");
    Ok(StatusCode::NO_CONTENT)
}

fn shown_topic(info: &DomainTopicInfo) -> Value {
    let name = info.name.as_str();
    json!({
        "name": name,
        "domain": info.domain,
        "resourceId": domain_topic_path(&domain_path(&info.domain), name),
        "createdTime": info.created.to_string(),
        "eventSubscriptionCount": info.subscriptions,
    })
}
