"""What is delivered is verified with the library that receivers of Standard Webhooks use, over the bytes as they came."""

import base64
import datetime as dt
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


def declare(topic, hook, name, signing):
    properties = {"endpointUrl": hook.url}
    declared = {"destination": {"endpointType": "WebHook", "properties": properties}, "signing": signing}
    topic.server.admin("PUT", f"/topics/{topic.name}/eventSubscriptions/{name}", declared)
    kit.eventually(lambda: topic.state(name) == "Succeeded")


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
    path = f"/topics/{topic.name}/eventSubscriptions/{name}"
    rotated = topic.server.admin("POST", f"{path}/rotateSigningSecret", {})
    new = rotated["secret"]
    until = dt.datetime.fromisoformat(rotated["previousSecretValidUntil"][:19] + "+00:00")
    assert dt.timedelta(hours=23) < until - dt.datetime.now(dt.timezone.utc) < dt.timedelta(hours=25)
    shown = topic.server.admin("GET", path)["signing"]
    assert {shown["secret"], shown["previousSecret"]} == {"********"}
    topic.send([event(1)])
    kit.eventually(lambda: len(hook.notifications()) == 1)
    for key in (old, new):
        verified(hook.notifications()[0], key)
    topic.server.admin("PATCH", path, {"signing": {"previousSecret": None, "previousSecretValidUntil": None}})
    topic.send([event(2)])
    kit.eventually(lambda: len(hook.notifications()) == 2)
    verified(hook.notifications()[1], new)
    with pytest.raises(WebhookVerificationError):
        verified(hook.notifications()[1], old)
