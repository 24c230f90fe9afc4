"""What the endpoint of a deleted subscription still gets."""

from azure.eventgrid import EventGridEvent

import kit


def test_a_deleted_subscription_is_told_and_gets_no_event(arm, topic, receiver):
    """ED-171: one notice of its deletion, and nothing of what is published later."""
    hook, other = receiver.hook(), receiver.hook()
    topic.subscribe(hook, name="gone")
    topic.subscribe(other, name="stays")
    arm.event_subscriptions.begin_delete(topic.id, "gone").result()
    event = EventGridEvent(subject="s", event_type="T", data={}, data_version="1")
    topic.send(event)
    other.wait_ids([event.id])
    kit.eventually(lambda: hook.notifications())
    [notice] = hook.notifications()
    assert notice.kind == "SubscriptionDeletion"
    [told] = notice.events
    assert told["eventType"] == "Microsoft.EventGrid.SubscriptionDeletedEvent"
    assert told["data"]["eventSubscriptionId"].endswith("/gone")
