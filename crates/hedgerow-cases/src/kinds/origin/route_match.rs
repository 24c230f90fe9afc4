//! `route_match`: which route a request takes (HP-150 to HP-153).

use hedgerow_origin::route::{Route, RouteTable, UNMATCHED_STATUS};
use hedgerow_origin::settings::Protocol;
use serde::Deserialize;
use serde_json::json;

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    routes: Vec<Declared>,
    scheme: Scheme,
    host: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    #[serde(default = "both")]
    protocols: Vec<Scheme>,
    hosts: Vec<String>,
    paths: Vec<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Scheme {
    Http,
    Https,
}

impl From<Scheme> for Protocol {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Http => Self::Http,
            Scheme::Https => Self::Https,
        }
    }
}

fn both() -> Vec<Scheme> {
    vec![Scheme::Http, Scheme::Https]
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let routes: Vec<Route> = input
        .routes
        .into_iter()
        .map(|route| Route {
            name: route.name,
            protocols: route.protocols.into_iter().map(Protocol::from).collect(),
            hosts: route.hosts,
            paths: route.paths,
        })
        .collect();
    let table = RouteTable::new(&routes).map_err(|error| error.to_string())?;
    let found = table.find(input.scheme.into(), &input.host, &input.path);
    Ok(Run::result(match found {
        Ok(Some(found)) => json!({ "route": found.route }),
        Ok(None) => json!({ "route": null, "status": UNMATCHED_STATUS }),
        Err(_) => json!({ "route": null, "status": 400 }),
    }))
}
