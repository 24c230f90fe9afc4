//! Declaring origin groups and routes.

use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::origin_groups::{GroupDone, Put, RouteDone, Wish};
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use serde_json::{Value, json};

use crate::world::{Meet, World};

fn world() -> World {
    World::new(|_, _| Meet::status(200))
}

fn group(host: &str) -> Box<Group> {
    let declared = json!({"origins": [{"name": "a", "host": host}]});
    Box::new(Group::read(&declared).unwrap())
}

async fn put(world: &World, name: &str, host: &str) -> Result<GroupDone, CommandError> {
    let wish = Wish {
        name: name.parse().unwrap(),
        wanted: group(host),
        expected: None,
        is_dry_run: false,
    };
    world.handle.put_origin_group(wish).await
}

async fn route(world: &World, name: &str, more: Value) -> Result<RouteDone, CommandError> {
    let mut declared = json!({"hosts": ["shop.example"], "origin_group": "shop"});
    let more = more.as_object().unwrap().clone();
    declared.as_object_mut().unwrap().extend(more);
    let wish = Wish {
        name: name.parse().unwrap(),
        wanted: Box::new(RouteSettings::read(&declared).unwrap()),
        expected: None,
        is_dry_run: false,
    };
    world.handle.put_route(wish).await
}

/// HP-006: once a change is answered, everybody who reads what is declared sees it; and what did not change is the same.
#[tokio::test(start_paused = true)]
async fn what_is_declared_is_shown_at_once() {
    let mut world = world();
    let mut seen = world.handle.watch_origins();
    let done = put(&world, "Shop", "a.example").await.unwrap();
    assert_eq!((done.name.as_str(), done.put), ("Shop", Put::Created));
    assert!(seen.has_changed().unwrap());
    put(&world, "other", "b.example").await.unwrap();
    let before = world.handle.origins();
    let done = put(&world, "SHOP", "c.example").await.unwrap();
    assert_eq!((done.name.as_str(), done.put), ("Shop", Put::Changed));
    let now = world.handle.origins();
    let (_, shop) = now.group_named("shop").unwrap();
    assert_eq!(shop.group, *group("c.example"));
    assert_eq!(shop.created, before.group_named("shop").unwrap().1.created);
    let other = |table: &hedgerow_delivery::origin_groups::OriginTable| {
        std::sync::Arc::clone(table.group_named("other").unwrap().1)
    };
    assert!(std::sync::Arc::ptr_eq(&other(&before), &other(&now)));
    let done = put(&world, "shop", "c.example").await.unwrap();
    assert_eq!(done.put, Put::Unchanged);
    seen.mark_unchanged();
    let done = route(&world, "all", json!({"origin_group": "sHOP"})).await;
    // Whoever follows the route finds the group under the name that it has.
    assert_eq!(done.unwrap().declared.route.origin_group, "Shop");
    assert!(seen.has_changed().unwrap());
    world.crash().await;
    let table = world.handle.origins();
    assert_eq!((table.groups.len(), table.routes.len()), (2, 1));
    assert_eq!(**table.group_named("shop").unwrap().1, **shop);
}

/// HP-005: a dry run changes nothing, and says what would be done.
#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let world = world();
    put(&world, "shop", "a.example").await.unwrap();
    let wish = |name: &str| Wish {
        name: name.parse().unwrap(),
        wanted: group("b.example"),
        expected: None,
        is_dry_run: true,
    };
    let done = world.handle.put_origin_group(wish("shop")).await.unwrap();
    assert_eq!(
        (done.put, done.declared.group),
        (Put::Changed, *group("b.example"))
    );
    let done = world.handle.put_origin_group(wish("new")).await.unwrap();
    assert_eq!(done.put, Put::Created);
    let table = world.handle.origins();
    assert_eq!(table.groups.len(), 1);
    assert_eq!(
        table.group_named("shop").unwrap().1.group,
        *group("a.example")
    );
}

/// A change of what somebody else declared meanwhile is refused.
#[tokio::test(start_paused = true)]
async fn of_two_changes_at_a_time_none_is_lost() {
    let world = world();
    put(&world, "shop", "a.example").await.unwrap();
    let wish = |host: &str, expected: &str| Wish {
        name: "shop".parse().unwrap(),
        wanted: group(host),
        expected: Some(group(expected)),
        is_dry_run: false,
    };
    let (one, two) = tokio::join!(
        world
            .handle
            .put_origin_group(wish("b.example", "a.example")),
        world
            .handle
            .put_origin_group(wish("c.example", "a.example")),
    );
    assert_eq!(one.unwrap().put, Put::Changed);
    assert!(matches!(two, Err(CommandError::Changed { .. })), "{two:?}");
    world
        .handle
        .delete_origin_group("shop".to_owned())
        .await
        .unwrap();
    let late = world
        .handle
        .put_origin_group(wish("c.example", "b.example"))
        .await;
    assert!(
        matches!(late, Err(CommandError::Changed { .. })),
        "{late:?}"
    );
}

/// HP-150: a route needs a group, and a combination of its own.
#[tokio::test(start_paused = true)]
async fn which_routes_are_refused() {
    let world = world();
    let error = route(&world, "all", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "origin_group: names \"shop\", and there is no such origin group"
    );
    put(&world, "shop", "a.example").await.unwrap();
    route(&world, "all", json!({})).await.unwrap();
    route(&world, "carts", json!({"paths": ["/cart/*"]}))
        .await
        .unwrap();
    let error = route(
        &world,
        "other",
        json!({"hosts": ["b.example", "SHOP.example."]}),
    )
    .await;
    let Err(CommandError::Conflict(message)) = error else {
        panic!("{error:?}")
    };
    assert!(message.contains("\"all\" and \"other\""), "{message}");
    // In its own place it is no other one.
    let done = route(&world, "All", json!({"https_redirect": 308}))
        .await
        .unwrap();
    assert_eq!((done.name.as_str(), done.put), ("all", Put::Changed));
    // A table that takes long to make is not made.
    let names: Vec<String> = (0..100)
        .map(|number| format!("h{number}.example"))
        .collect();
    let paths: Vec<String> = (0..100).map(|number| format!("/{number}")).collect();
    let wide = json!({"hosts": names, "paths": paths});
    route(&world, "wide-1", wide).await.unwrap();
    let names: Vec<String> = (0..100)
        .map(|number| format!("i{number}.example"))
        .collect();
    let wide = json!({"hosts": names, "paths": paths});
    route(&world, "wide-2", wide).await.unwrap();
    let names: Vec<String> = (0..100)
        .map(|number| format!("j{number}.example"))
        .collect();
    let wide = json!({"hosts": names, "paths": paths});
    let error = route(&world, "wide-3", wide).await;
    assert!(matches!(error, Err(CommandError::Limit(_))), "{error:?}");
}

/// A group that something names stays.
#[tokio::test(start_paused = true)]
async fn who_names_a_group_keeps_it() {
    let world = world();
    put(&world, "shop", "a.example").await.unwrap();
    for number in 0..12 {
        let path = format!("/{number}");
        let name = format!("route-{number:02}");
        route(&world, &name, json!({"paths": [path]}))
            .await
            .unwrap();
    }
    let users = world.handle.users_of_origin_group("SHOP".to_owned()).await;
    assert_eq!(users.unwrap().len(), 12);
    let error = world.handle.delete_origin_group("Shop".to_owned()).await;
    let Err(CommandError::Conflict(message)) = error else {
        panic!("{error:?}")
    };
    assert!(
        message.starts_with("the origin group \"shop\" is used by route route-00, route route-01"),
        "{message}"
    );
    assert!(message.contains("route route-09 and 2 more;"), "{message}");
    for number in 0..12 {
        let name = format!("ROUTE-{number:02}");
        world.handle.delete_route(name).await.unwrap();
    }
    world
        .handle
        .delete_origin_group("Shop".to_owned())
        .await
        .unwrap();
    for gone in [
        world.handle.delete_origin_group("shop".to_owned()).await,
        world.handle.delete_route("route-00".to_owned()).await,
        world
            .handle
            .users_of_origin_group("a b".to_owned())
            .await
            .map(drop),
    ] {
        assert!(
            matches!(gone, Err(CommandError::NotFound { .. })),
            "{gone:?}"
        );
    }
}
