"""The official client publishes an Event Grid event, a CloudEvent and a custom event, by key and by shared access signature,
over plain HTTP on loopback; the built-in receiver of `hedgerow dev` got what was sent."""

import datetime as dt
import json

import pytest
import requests
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, generate_sas
from azure.mgmt.eventgrid import models as m

import kit


class Inbox:
    """A path of the built-in receiver."""

    def __init__(self, server):
        self.base = server.ready["receiver"]
        self.path = "/" + kit.unique("inbox")
        self.url = self.base + self.path

    def events(self):
        answer = requests.get(f"{self.base}/received?limit=1000", timeout=10)
        return [one for one in answer.json()["value"] if one["path"] == self.path]

    def wait(self, event_id):
        def find():
            return next((one for one in self.events() if one["id"] == str(event_id)), None)

        return kit.eventually(find, what=f"delivery of {event_id}")


def by_key(topic):
    return AzureKeyCredential(topic.keys.key1)


def by_second_key(topic):
    return AzureKeyCredential(topic.keys.key2)


def by_sas(topic):
    expiry = dt.datetime.now(dt.timezone.utc) + dt.timedelta(minutes=5)
    return AzureSasCredential(generate_sas(topic.endpoint, topic.keys.key1, expiry))


CREDENTIALS = [by_key, by_second_key, by_sas]
# What a round trip through floating point, or through a reordering map, would spoil (FC-01).
DATA = {"zeta": 12345678901234567890, "alpha": [1, None, 2.5, False], "text": "naïve ☂", "big": 10**30}


@pytest.fixture
def inbox(server):
    return Inbox(server)


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_event_grid_event(topic, inbox, credential):
    topic.subscribe(inbox)
    event = EventGridEvent(subject="/orders/1", event_type="Order.Placed", data=DATA, data_version="1.0")
    assert topic.endpoint.startswith("http://127.0.0.1:")
    topic.publisher(credential(topic)).send(event)
    got = inbox.wait(event.id)
    assert got["status"] == 200 and got["deliveryCount"] == 0
    sent = got["event"]
    assert (sent["subject"], sent["eventType"], sent["dataVersion"]) == ("/orders/1", "Order.Placed", "1.0")
    assert json.dumps(sent["data"]) == json.dumps(DATA), "values, and the order of members"


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_cloud_event(ce_topic, inbox, credential):
    ce_topic.subscribe(inbox, event_delivery_schema="CloudEventSchemaV1_0")
    event = CloudEvent(source="/shop", type="Order.Placed", subject="s1", data=DATA, extensions={"tenant": "blue"})
    ce_topic.publisher(credential(ce_topic)).send(event)
    got = inbox.wait(event.id)
    assert got["contentType"].split(";")[0] == "application/cloudevents+json"
    sent = got["event"]
    assert (sent["source"], sent["type"], sent["subject"]) == ("/shop", "Order.Placed", "s1")
    assert (sent["specversion"], sent["tenant"]) == ("1.0", "blue")
    assert json.dumps(sent["data"]) == json.dumps(DATA)


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_custom_event(make_topic, inbox, credential):
    topic = make_topic(
        input_schema="CustomEventSchema",
        input_schema_mapping=m.JsonInputSchemaMapping(
            id=m.JsonField(source_field="key"),
            event_type=m.JsonFieldWithDefault(source_field="kind"),
            subject=m.JsonFieldWithDefault(default_value="none"),
            data_version=m.JsonFieldWithDefault(default_value="7"),
        ),
    )
    topic.subscribe(inbox, event_delivery_schema="CustomInputSchema")
    event = {"key": kit.unique("e"), "kind": "Order.Placed", "payload": DATA}
    topic.publisher(credential(topic)).send(event)

    def find():
        return next((one for one in inbox.events() if (one["event"] or {}).get("key") == event["key"]), None)

    got = kit.eventually(find, what="delivery of the custom event")
    assert json.dumps(got["event"]) == json.dumps(event), "the whole event, as it was sent"


def test_a_failing_receiver_gets_it_again(topic, server):
    """Retries and the end as a dead letter, seen from outside: what `acceptance.toml` is for."""
    inbox = Inbox(server)
    inbox.url, inbox.path = f"{inbox.base}/answer/503", "/answer/503"
    topic.subscribe(inbox, name="fails", retry_policy=m.RetryPolicy(max_delivery_attempts=3))
    event = EventGridEvent(subject="/s", event_type="T", data={}, data_version="1")
    topic.send(event)

    def attempts():
        got = server.admin("GET", f"/events/{event.id}/attempts")["value"]
        return got if got and got[-1]["final"] else None

    got = kit.eventually(attempts, what="the end of the delivery")
    # Behind the last attempt may stand that its dead letter was written, which is no attempt.
    assert [one["httpStatus"] for one in got if one["kind"] == "Attempt"] == [503, 503, 503]
    assert got[-1]["reason"] == "MaxDeliveryAttemptsExceeded"
