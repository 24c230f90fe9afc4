"""What is delivered is verified with the library that receivers of Standard Webhooks use, over the bytes as they came."""

import base64
import datetime as dt
import json
import os

import pytest
from azure.eventgrid import EventGridEvent
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

import kit


def secret():
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def event(number):
    return EventGridEvent(
        id=str(number), subject="s", event_type="T", data={"text": "žluť", "number": 1.10}, data_version="1"
    )


def declare(topic, hook, name, signing, limits=None, **more):
    properties = {"endpointUrl": hook.url, **(limits or {})}
    declared = {"destination": {"endpointType": "WebHook", "properties": properties}, "signing": signing, **more}
    # Attempts follow each other by the slots alone.
    declared |= {"probation": {"threshold": 100}, "delayedDelivery": {"enabled": False}}
    topic.server.admin("PUT", path(topic, name), declared)
    kit.eventually(lambda: topic.state(name) == "Succeeded")


def path(topic, name):
    return f"/topics/{topic.name}/eventSubscriptions/{name}"


def send_together(topic, name, events):
    """All of them are due when the first one may start: they travel together as far as they may."""
    topic.server.admin("POST", f"{path(topic, name)}/pause")
    topic.send(events)
    topic.server.admin("POST", f"{path(topic, name)}/resume")


def timestamp(delivery):
    return int(delivery.headers["webhook-timestamp"])


def verified(delivery, secret):
    """What the library makes of a request; it raises if the signature or its time is not right."""
    return Webhook(secret).verify(delivery.body, delivery.headers)


def test_every_attempt_is_signed(topic, hook):
    key = secret()
    hook.statuses = [503, 503]
    declare(topic, hook, kit.unique("s"), {"secret": key})
    topic.send([event(1)])
    kit.eventually(lambda: len(hook.notifications()) == 3)
    attempts = hook.notifications()
    for attempt in attempts:
        assert verified(attempt, key)[0]["id"] == "1"
        with pytest.raises(WebhookVerificationError):
            verified(attempt, secret())
    assert len({attempt.headers["webhook-id"] for attempt in attempts}) == 1
    # Who verifies everything can still consent.
    verified(hook.handshakes()[0], key)
    changed = attempts[0]
    changed.body += b" "
    with pytest.raises(WebhookVerificationError):
        verified(changed, key)


def test_both_secrets_hold_during_a_rotation(topic, hook):
    old = secret()
    name = kit.unique("s")
    declare(topic, hook, name, {"secret": old})
    rotated = topic.server.admin("POST", f"{path(topic, name)}/rotateSigningSecret", {})
    new = rotated["secret"]
    until = dt.datetime.fromisoformat(rotated["previousSecretValidUntil"][:19] + "+00:00")
    assert dt.timedelta(hours=23) < until - dt.datetime.now(dt.timezone.utc) < dt.timedelta(hours=25)
    shown = topic.server.admin("GET", path(topic, name))["signing"]
    assert {shown["secret"], shown["previousSecret"]} == {"********"}
    topic.send([event(1)])
    kit.eventually(lambda: len(hook.notifications()) == 1)
    for key in (old, new):
        verified(hook.notifications()[0], key)
    topic.server.admin("PATCH", path(topic, name), {"signing": {"previousSecret": None, "previousSecretValidUntil": None}})
    topic.send([event(2)])
    kit.eventually(lambda: len(hook.notifications()) == 2)
    verified(hook.notifications()[1], new)
    with pytest.raises(WebhookVerificationError):
        verified(hook.notifications()[1], old)


def test_a_late_retry_has_a_new_time(topic, hook):
    """FC-13: the time is that of the attempt, the id that of the event, and neither fits the signature of another attempt."""
    key = secret()
    # The sixth attempt comes 1.8 s after the first.
    hook.statuses = [503] * 5
    declare(topic, hook, kit.unique("s"), {"secret": key})
    topic.send([event(1)])
    kit.eventually(lambda: len(hook.notifications()) == 6)
    first, *_, last = hook.notifications()
    assert first.body == last.body
    assert first.headers["webhook-id"] == last.headers["webhook-id"]
    assert 1 <= timestamp(last) - timestamp(first) <= 60
    for attempt in (first, last):
        assert verified(attempt, key)[0]["id"] == "1"
    last.headers["webhook-timestamp"] = first.headers["webhook-timestamp"]
    with pytest.raises(WebhookVerificationError):
        verified(last, key)


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
def test_batches_are_signed_as_they_are_sent(topic, hook, schema):
    """ED-142 with ED-132 and ED-219: one signature for the whole body of a batch, also of one that is tried again."""
    old, new, name = secret(), secret(), kit.unique("s")
    hook.statuses = [503] * 5
    signing = {"secret": new, "previousSecret": old}
    declare(topic, hook, name, signing, {"maxEventsPerBatch": 10}, eventDeliverySchema=schema)
    send_together(topic, name, [event(number) for number in range(3)])
    kit.eventually(lambda: len(hook.notifications()) == 6)
    attempts = hook.notifications()
    for attempt in attempts:
        assert attempt.headers["hedgerow-batch-size"] == "3"
        for key in (old, new):
            told = verified(attempt, key)
            assert [one["id"] for one in told] == ["0", "1", "2"]
            assert told[0]["data"] == {"text": "žluť", "number": 1.10}
        with pytest.raises(WebhookVerificationError):
            verified(attempt, secret())
    assert len({attempt.headers["webhook-id"] for attempt in attempts}) == 1
    assert 1 <= timestamp(attempts[-1]) - timestamp(attempts[0]) <= 60
    # A batch with one event less, or with the same ones spelled otherwise, is not what was signed.
    for other in (json.dumps(told[:2]).encode(), json.dumps(told).encode()):
        forged = kit.Delivery("POST", "/", attempts[0].headers, other)
        with pytest.raises(WebhookVerificationError):
            verified(forged, new)
    # Of one event it is a batch too, and another one.
    topic.send([event(3)])
    kit.eventually(lambda: len(hook.notifications()) == 7)
    alone = hook.notifications()[6]
    assert [one["id"] for one in verified(alone, old)] == ["3"]
    assert alone.headers["hedgerow-batch-size"] == "1"
    assert alone.headers["webhook-id"] != attempts[0].headers["webhook-id"]


def test_the_parts_of_a_batch_are_signed_each(topic, hook):
    """ED-142 with ED-221: what comes apart is signed anew, and each part is known by an id of its own."""
    key, name = secret(), kit.unique("s")
    hook.statuses = [413]
    declare(topic, hook, name, {"secret": key}, {"maxEventsPerBatch": 10}, batch={"splitOn413": True})
    send_together(topic, name, [event(number) for number in range(5)])
    kit.eventually(lambda: len(hook.notifications()) == 3)
    whole, *parts = hook.notifications()
    assert len(verified(whole, key)) == 5
    parts = sorted(([one["id"] for one in verified(part, key)] for part in parts), key=len)
    assert parts == [["0", "1"], ["2", "3", "4"]]
    assert len({part.headers["webhook-id"] for part in hook.notifications()}) == 3
