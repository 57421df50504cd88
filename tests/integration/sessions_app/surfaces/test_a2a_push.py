"""Push notifications of A2A: what a receiver gets, who configures them, and what ends them."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.kernel.liveness import Observer
from sessions_app.channels.outbound import sweeper
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.models import ApiKey, ChannelAccount, Delivery, TaskPush
from sessions_app.surfaces.a2a.push_configs import MOST_CONFIGS
from tests.fakes.http_server import Fault
from tests.fakes.push_inbox import CREDENTIALS, TOKEN, Inbox, config
from tests.integration.sessions_app.surfaces.test_a2a import (
    FREE,
    STORE,
    WRITE,
    Client,
    Object,
    _key_of,
    answer,
    message,
    state,
)
from tests.support.conditions import eventually, happens
from tests.support.engine import EngineRig
from tests.support.live_server import ROOT
from tools_app.secrets import key_rotation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

CREATE, GET = "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig"
LIST, DELETE = "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"


@pytest.fixture
def inbox(settings: Any) -> Iterator[Inbox]:
    with Inbox() as server:
        settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [server.address]
        yield server


@pytest.fixture
def key(alice: Any, settings: Any) -> str:
    settings.KOMAND_APPROVERS = "owners"
    return create_api_key(alice, "k", scopes=["all"]).key


@pytest.fixture(params=[False, True], ids=["jsonrpc", "rest"])
def client(request: pytest.FixtureRequest, key: str) -> Client:
    return Client(key, is_rest=request.param)


async def test_each_state_of_a_task_is_posted_until_its_end(rig: EngineRig, client: Client, inbox: Inbox) -> None:
    await in_db(rig.agent, Reply(tool_calls=(STORE,)), Reply(tool_calls=(WRITE,)), Reply(("Stored.",)), **FREE)
    task = (
        await client.call("SendMessage", **message("x", configuration={"taskPushNotificationConfig": config(inbox)}))
    )["task"]
    await happens(lambda: inbox.states[-1:] == ["AUTH_REQUIRED"])
    asked = inbox.updates[-1]["statusUpdate"]
    assert (asked["taskId"], asked["contextId"]) == (task["id"], task["contextId"])
    assert asked["status"]["message"] == task["status"]["message"], "with what it asks, and the choices of its client"
    assert inbox.updates == [update for update in inbox.updates if "statusUpdate" in update]
    await client.say(f"approve {asked['status']['message']['parts'][1]['data']['approvalId']}", taskId=task["id"])
    await happens(lambda: inbox.states[-1:] == ["COMPLETED"])
    artifacts = [update["artifactUpdate"]["artifact"] for update in inbox.updates if "artifactUpdate" in update]
    assert answer({"artifacts": artifacts}) == "Stored." and inbox.is_good
    [file] = [each for each in artifacts if each["name"] == "files/a.txt"]
    assert "raw" not in file["parts"][0] and file["parts"][0]["url"].startswith("http://localhost/a2a/default/files/")
    states = inbox.states
    assert "statusUpdate" in inbox.updates[-1] and all(one != two for one, two in itertools.pairwise(states)), states
    assert not await in_db(TaskPush.objects.filter(is_open=True).exists)


async def test_configurations_are_created_shown_replaced_and_deleted(
    rig: EngineRig, client: Client, inbox: Inbox
) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    task = await client.say("hello")
    made = await client.call(CREATE, taskId=task["id"], **config(inbox))
    assert made == {
        "id": task["id"],
        "taskId": task["id"],
        "url": f"{inbox.url}/hook",
        "authentication": {"scheme": "Bearer"},
    }, "secrets are not shown again"
    await happens(lambda: inbox.states == ["COMPLETED"])
    stored = await in_db(TaskPush.objects.get)
    assert TOKEN not in stored.target_sealed and CREDENTIALS not in stored.target_sealed
    assert (TaskPush, "target_sealed") in key_rotation.sealed_columns()
    assert await client.call(GET, taskId=task["id"], id=task["id"]) == made
    other = await client.call(CREATE, taskId=task["id"], **config(inbox, id="two", url=f"{inbox.url}/old"))
    again = await client.call(CREATE, taskId=task["id"], **config(inbox, id="two"))
    assert other["id"] == again["id"] == "two" and again["url"].endswith("/hook")
    assert await client.call(LIST, taskId=task["id"]) == {"configs": [made, again], "nextPageToken": ""}
    for _ in range(2):
        assert await client.call(DELETE, taskId=task["id"], id="two") == {}
    assert await client.refusal(GET, taskId=task["id"], id="two") in (-32001, "TASK_NOT_FOUND")
    for number in range(MOST_CONFIGS - 1):
        await client.call(CREATE, taskId=task["id"], **config(inbox, id=str(number)))
    assert await client.refusal(CREATE, taskId=task["id"], **config(inbox, id="more")) in (-32602, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://127.0.0.1/x"},
        {"url": "http://[::1]/x"},
        {"url": "http://10.0.0.1/x"},
        {"url": "http://localhost/x"},
        {"url": "https://example.org:8443/x"},
        {"url": "ftp://example.org/x"},
        {"url": ""},
        {"token": "a\r\nHost: b"},
        {"token": "é"},
        {"authentication": {"scheme": "Bearer x", "credentials": "y"}},
        {"authentication": {"scheme": "Bearer", "credentials": "y\n"}},
        {"authentication": {"credentials": "y"}},
    ],
)
async def test_inner_addresses_and_broken_headers_are_refused(
    rig: EngineRig, key: str, inbox: Inbox, change: Object
) -> None:
    client, given = Client(key), {**config(inbox), **change}
    await in_db(rig.agent, Reply(("Hi.",)))
    sent = message("x", configuration={"taskPushNotificationConfig": given})
    assert await client.refusal("SendMessage", **sent) == -32602
    assert (await client.call("ListTasks"))["totalSize"] == 0, "nothing was stored"
    task = await client.say("hello")
    assert await client.refusal(CREATE, taskId=task["id"], **given) == -32602
    assert not await in_db(TaskPush.objects.exists)


async def test_only_the_client_of_a_task_configures_it(rig: EngineRig, key: str, inbox: Inbox) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    task = await Client(key).say("hello")
    await Client(key).call(CREATE, taskId=task["id"], **config(inbox))
    bob = Client(await in_db(_key_of, "bob"))
    for method in (CREATE, GET, LIST, DELETE):
        assert await bob.refusal(method, taskId=task["id"], **config(inbox, id=task["id"])) == -32001
    reader = Client((await in_db(create_api_key, rig.owner, "r", scopes=["a2a:read"])).key)
    assert (await reader.call(GET, taskId=task["id"], id=task["id"]))["id"] == task["id"]
    for method in (CREATE, DELETE):
        assert (await reader.send(method, taskId=task["id"], **config(inbox, id=task["id"])))[0] == 403
    assert await in_db(TaskPush.objects.count) == 1


async def test_a_revoked_key_and_a_deleted_configuration_get_nothing_more(
    rig: EngineRig, key: str, inbox: Inbox
) -> None:
    await in_db(rig.agent, Reply(tool_calls=(STORE,)), Reply(("Stored.",)))
    client = Client(key)
    task = await client.say("x")
    for name in ("kept", "gone"):
        await client.call(CREATE, taskId=task["id"], **config(inbox, id=name, url=f"{inbox.url}/{name}"))
    await happens(lambda: len(inbox.requests) == 2)
    await client.call(DELETE, taskId=task["id"], id="gone")
    other = Client((await in_db(create_api_key, rig.owner, "o", scopes=["all"])).key)
    row = await in_db(ApiKey.objects.get, name="k")
    await in_db(revoke_api_key, rig.owner, row.pk)
    approval = task["status"]["message"]["parts"][1]["data"]["approvalId"]
    assert state(await other.say(f"approve {approval}", taskId=task["id"])) == "COMPLETED"
    await eventually(lambda: not TaskPush.objects.filter(is_open=True).exists())
    assert inbox.states == ["AUTH_REQUIRED"] * 2 and not await in_db(Delivery.objects.exclude(status="sent").exists)


class DeadObserver(Observer):
    """A failure detector to which all other processes are dead."""

    def __init__(self) -> None:
        self.alive = liveness.current()

    def dead(self, owners: Any) -> set[Any]:
        return {owner for owner in owners if owner != self.alive}


async def test_a_notification_outlives_the_worker_that_sends_it_and_a_receiver_that_fails(
    rig: EngineRig, key: str, inbox: Inbox
) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    task = await Client(key).say("hello")
    inbox.faults.append(Fault("status", 503, retry_after=3600))
    await Client(key).call(CREATE, taskId=task["id"], **config(inbox))
    [first, *_] = await eventually(lambda: list(Delivery.objects.filter(tries=1, status="pending").order_by("pk")))
    assert "503" in first.error and first.ready_at < timezone.now() + timedelta(seconds=10), "its wait is ours"
    # As a worker leaves it that is killed while it sends.
    await in_db(Delivery.objects.filter(pk=first.pk).update, status="sending", owner=uuid4(), ready_at=timezone.now())
    await in_db(sweeper.sweep, DeadObserver())
    await happens(lambda: inbox.states == ["COMPLETED"])
    await eventually(lambda: not Delivery.objects.exclude(status="sent").exists())
    assert len({request.headers["webhook-id"] for request in inbox.requests}) == len(inbox.requests) == 2


def test_workers_can_load_what_notifies() -> None:
    """They have fewer apps than a web process."""
    code = "import django; django.setup(); import sessions_app.surfaces.a2a.push_notifications"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "komand.settings.worker"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


async def test_operators_see_no_account_of_it(
    rig: EngineRig, key: str, inbox: Inbox, operator: Any, async_client: Any
) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    task = await Client(key).say("hello")
    await Client(key).call(CREATE, taskId=task["id"], **config(inbox))
    await happens(lambda: inbox.states == ["COMPLETED"])
    assert await in_db(ChannelAccount.objects.get, channel="a2a-push")
    await async_client.aforce_login(operator)
    page = await async_client.get("/admin/sessions_app/channelaccount/")
    assert page.status_code == 200 and b"a2a-push" not in page.content
