//! Origin groups and routes in the catalog: what a name keeps, and that all of it outlives a start.

use hedgerow_core::time::Timestamp;
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use hedgerow_store::catalog::Change;
use serde_json::json;

use crate::grid::Grid;

fn group(name: &str, host: &str, at: u64) -> Change {
    let declared = json!({
        "unhealthy_threshold": 2,
        "probe": {"headers": {"X-Team": "blue"}},
        "origins": [{"name": "a", "host": host}],
    });
    Change::OriginGroupDeclared {
        name: name.parse().unwrap(),
        group: Box::new(Group::read(&declared).unwrap()),
        at: Timestamp::from_millis(at),
    }
}

fn route(name: &str, group: &str, at: u64) -> Change {
    Change::RouteDeclared {
        name: name.parse().unwrap(),
        route: Box::new(RouteSettings::new(vec!["shop.example".to_owned()], group)),
        at: Timestamp::from_millis(at),
    }
}

/// HP-005: what is declared again keeps its name's spelling and its beginning; what was accepted is read as it was.
#[test]
fn groups_and_routes_outlive_a_start() {
    let mut grid = Grid::new(1);
    grid.declare(&group("Shop", "a.example", 5));
    grid.declare(&group("gone", "a.example", 6));
    grid.declare(&route("shop-route", "Shop", 7));
    grid.declare(&route("gone", "gone", 8));
    grid.declare(&group("SHOP", "b.example", 9));
    grid.declare(&Change::RouteDeleted {
        name: "GONE".parse().unwrap(),
    });
    grid.declare(&Change::OriginGroupDeleted {
        name: "Gone".parse().unwrap(),
    });
    let catalog = grid.view.catalog().clone();
    let (name, found) = catalog.origin_group_named("shop").unwrap();
    assert_eq!(name.as_str(), "Shop");
    assert_eq!(found.group.settings().origins[0].host, "b.example");
    let times = (found.created, found.changed);
    assert_eq!(
        times,
        (Timestamp::from_millis(5), Timestamp::from_millis(9))
    );
    assert_eq!(catalog.origin_groups().len(), 1);
    assert!(catalog.origin_group_named("gone").is_none());
    let (name, _) = catalog.route_named("Shop-Route").unwrap();
    assert_eq!((name.as_str(), catalog.routes().len()), ("shop-route", 1));
    // From the log, and from the file of the catalog.
    grid.reopen();
    assert_eq!(*grid.view.catalog(), catalog);
    grid.checkpoint();
    grid.reopen();
    assert_eq!(*grid.view.catalog(), catalog);
}
