"""Starts `hedgerow dev` with acceptance.toml, and gives the tests what Event Grid's management plane would: topics and
subscriptions, declared through Hedgerow's own admin API in Event Grid's property shapes.

HEDGEROW_BIN says which program is started. The tests of the copied files are never changed; LATER names those that wait
for a later version, and ELSEWHERE those that another test of ours stands for, with the reason.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import requests

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Tests that need what comes with a later version.
LATER = {
    "test_publish.py": {
        "test_bearer_token_publishes": "the client sends bearer tokens over TLS only",
    },
}

# Tests that ask for something else than the specification does.
ELSEWHERE = {
    "test_delivery.py": {
        "test_deleted_subscription_gets_nothing": "the endpoint is told of the deletion (ED-171), which the test counts as an "
        "event; test_deletion.py tells them apart",
    },
}


class Server:
    """`hedgerow dev` in a process of its own, on any free ports, with data that go with it."""

    def __init__(self):
        program = os.environ.get("HEDGEROW_BIN")
        if not program:
            pytest.exit("set HEDGEROW_BIN to the program to test; `cargo xtask test` does", returncode=2)
        self.folder = tempfile.TemporaryDirectory(prefix="hedgerow-clients-")
        ready = pathlib.Path(self.folder.name, "ready.json")
        log = pathlib.Path(self.folder.name, "log")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEDGEROW_")}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [program, "dev", "--listen", "127.0.0.1:0", "--config", HERE / "acceptance.toml", "--ready-file", ready],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        end = time.monotonic() + 60
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                pytest.exit(f"the server does not start:\n{log.read_text()}", returncode=1)
            time.sleep(0.05)
        self.ready = json.loads(ready.read_text())
        self.endpoint = self.ready["endpoint"]

    def admin(self, method, path, body=None):
        """Asks the admin API; a refusal is raised as Event Grid's own clients raise it."""
        from azure.core.exceptions import HttpResponseError

        headers = {"Authorization": f"Bearer {self.ready['adminToken']}"}
        answer = requests.request(method, f"{self.endpoint}/api/v1{path}", headers=headers, json=body, timeout=60)
        if answer.status_code >= 400:
            raise refused(HttpResponseError, answer)
        return answer.json() if answer.content else None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def refused(kind, answer):
    error = kind(f"{answer.status_code}: {answer.text}")
    error.status_code = answer.status_code
    told = answer.json().get("error", {}) if answer.content else {}
    error.error = type("Error", (), {"code": told.get("code"), "message": told.get("message")})
    return error


SERVER = Server()
# The names that stand in the resource ids of topics.
os.environ.update(HEDGEROW_ENDPOINT=SERVER.endpoint, HEDGEROW_SUBSCRIPTION="hedgerow", HEDGEROW_RG="hedgerow")

import kit  # noqa: E402

from azure.core.credentials import AzureKeyCredential  # noqa: E402
from azure.eventgrid import EventGridPublisherClient  # noqa: E402
from azure.mgmt.eventgrid import models as m  # noqa: E402


def pytest_unconfigure():
    SERVER.stop()


def pytest_collection_modifyitems(items):
    for item in items:
        for left_out, why in [(LATER, "a later version"), (ELSEWHERE, "elsewhere")]:
            reasons = left_out.get(item.path.name, {})
            reason = reasons.get(item.originalname) or reasons.get(item.name)
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"{why}: {reason}"))


@pytest.fixture(autouse=True)
def no_test_hangs():
    def stop(signum, frame):
        raise TimeoutError("test ran too long")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(kit.PATIENCE * 4))
    yield
    signal.alarm(0)


@pytest.fixture(scope="session")
def server():
    return SERVER


@pytest.fixture(scope="session")
def receiver():
    r = kit.Receiver()
    yield r
    r.close()


@pytest.fixture
def hook(receiver):
    return receiver.hook()


class Done:
    """What a management client gives back for an operation that takes a while."""

    def __init__(self, look):
        self.look = look

    def done(self):
        return self.look().provisioning_state == "Succeeded"

    def result(self, timeout=None):
        kit.eventually(self.done, timeout, "the end of the operation")
        return self.look()


class Subscription:
    def __init__(self, json):
        self.name = json["name"]
        self.provisioning_state = json["provisioningState"]


class Arm:
    """The few calls of the management client that the copied tests make, over the admin API."""

    def __init__(self, server):
        self.server = server
        self.event_subscriptions = self
        self.topics = self
        self.domains = Domains(server)
        self.domain_topics = DomainTopics(server)
        self.domain_topic_event_subscriptions = DomainTopicSubscriptions(server)

    def begin_delete(self, topic_id, name):
        topic = topic_id.rpartition("/")[2]
        self.server.admin("DELETE", f"/topics/{topic}/eventSubscriptions/{name}")
        return type("Deleted", (), {"result": lambda self: None})()

    def begin_regenerate_key(self, group, name, key):
        keys = self.server.admin("POST", f"/topics/{name}/regenerateKey", {"keyName": key["key_name"]})
        return type("Regenerated", (), {"result": lambda self: Keys(keys)})()


@pytest.fixture(scope="session")
def arm(server):
    return Arm(server)


class Known:
    """What the admin API shows, where the operation is over as soon as it answers."""

    def __init__(self, shown):
        self.__dict__.update(shown or {})

    def result(self):
        return self


class Domains:
    def __init__(self, server):
        self.server = server

    def begin_create_or_update(self, group, name, domain):
        declared = domain.serialize()["properties"]
        return Known(self.server.admin("PUT", f"/domains/{name}", declared))

    def list_shared_access_keys(self, group, name):
        return Keys(self.server.admin("POST", f"/domains/{name}/listKeys"))

    def begin_delete(self, group, name):
        return Known(self.server.admin("DELETE", f"/domains/{name}"))


class DomainTopics:
    def __init__(self, server):
        self.server = server

    def begin_create_or_update(self, group, domain, name):
        return Known(self.server.admin("PUT", f"/domains/{domain}/topics/{name}", {}))

    def list_by_domain(self, group, domain):
        return [Known(topic) for topic in self.server.admin("GET", f"/domains/{domain}/topics")["value"]]


class DomainTopicSubscriptions:
    def __init__(self, server):
        self.server = server

    def begin_create_or_update(self, group, domain, topic, name, subscription):
        # The test's own name is shorter than one may be (ED-268).
        name = name if len(name) >= 3 else kit.unique(name)
        path = f"/domains/{domain}/topics/{topic}/eventSubscriptions/{name}"
        self.server.admin("PUT", path, without_batches(subscription.serialize()["properties"]))
        return Done(lambda: Subscription(self.server.admin("GET", path)))


class Keys:
    def __init__(self, json):
        self.key1, self.key2 = json["key1"], json["key2"]


class Topic:
    """A custom topic with the keys and endpoint it was given."""

    def __init__(self, arm, **props):
        self.arm = arm
        self.server = arm.server
        self.name = kit.unique("t")
        self.id = kit.topic_id(self.name)
        declared = m.Topic(location=kit.LOCATION, **props).serialize()["properties"]
        self.endpoint = self.server.admin("PUT", f"/topics/{self.name}", declared)["endpoint"]
        self.keys = Keys(self.server.admin("POST", f"/topics/{self.name}/listKeys"))

    def publisher(self, credential=None):
        return EventGridPublisherClient(self.endpoint, credential or AzureKeyCredential(self.keys.key1))

    def send(self, events):
        self.publisher().send(events)

    def subscribe(self, hook, name=None, wait=True, **props):
        """An event subscription; a webhook destination when a hook is given."""
        if hook is not None:
            batch = props.pop("batch", {})
            props["destination"] = m.WebHookEventSubscriptionDestination(endpoint_url=hook.url, **batch)
        name = name or kit.unique("s")
        declared = m.EventSubscription(**props).serialize()["properties"]
        self.server.admin("PUT", f"/topics/{self.name}/eventSubscriptions/{name}", without_batches(declared))
        done = Done(lambda: self.show(name))
        return done.result() if wait else done

    def show(self, name):
        return Subscription(self.server.admin("GET", f"/topics/{self.name}/eventSubscriptions/{name}"))

    def state(self, name):
        return self.show(name).provisioning_state

    def delete(self):
        self.server.admin("DELETE", f"/topics/{self.name}")


def without_batches(declared):
    """The models say one event a request where nothing was said: batches of one, which are a form of their own (ED-217)."""
    properties = declared["destination"]["properties"]
    if properties.get("maxEventsPerBatch", 1) == 1:
        properties.pop("maxEventsPerBatch", None)
        properties.pop("preferredBatchSizeInKilobytes", None)
    return declared


@pytest.fixture
def make_topic(arm):
    made = []

    def make(**props):
        made.append(Topic(arm, **props))
        return made[-1]

    yield make
    for t in made:
        t.delete()


@pytest.fixture
def topic(make_topic):
    return make_topic()


@pytest.fixture
def ce_topic(make_topic):
    return make_topic(input_schema="CloudEventSchemaV1_0")
