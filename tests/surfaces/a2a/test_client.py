"""The real `a2a-sdk` against a whole installation, over both bindings. It refuses fields that the protocol lacks."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.fakes.push_inbox import Inbox, config
from tests.support.live_server import LiveKomand, wait_for
from tests.surfaces import pypi

pytestmark = pytest.mark.npm

Object = dict[str, Any]
SDK = "a2a-sdk==1.3.0"
STORE = '[[tool=memory_store args={"key":"car","text":"blue"}]]'


class SdkClient:
    """A process with the client of one binding."""

    def __init__(self, python: Path, **given: str) -> None:
        command = [str(python), str(Path(__file__).with_name("client.py")), json.dumps(given)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.error = "unknown"

    def begin(self, call: str, **params: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"call": call, "params": params}) + "\n")
        self.process.stdin.flush()

    def events(self) -> Iterator[Object]:
        """Yield the results of a call. Its error is known at the end."""
        assert self.process.stdout
        for line in self.process.stdout:
            event = json.loads(line)
            if "end" in event:
                self.error = event["end"]
                return
            yield event
        raise AssertionError("the client has ended")

    def call(self, call: str, **params: Any) -> list[Object]:
        self.begin(call, **params)
        found = list(self.events())
        assert self.error == "", self.error
        return found

    def refusal(self, call: str, **params: Any) -> str:
        self.begin(call, **params)
        assert list(self.events()) == []
        return self.error

    def say(self, text: str, **fields: Any) -> Object:
        [found] = self.call("send", **message(text, **fields))
        task: Object = found["task"]
        return task


def message(text: str, **fields: Any) -> Object:
    return {"message": {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **fields}}


def applied(events: list[Object]) -> tuple[str, str]:
    """Return the answer and the state that a client has after a stream."""
    text, state = "", ""
    for event in events:
        if change := event.get("artifactUpdate"):
            piece = change["artifact"]["parts"][0].get("text", "")
            text = text + piece if change.get("append") else piece
        else:
            for artifact in event.get("task", {}).get("artifacts", ()):  # of what had been said when the stream began
                text = artifact["parts"][0].get("text", "")
            state = (event.get("task") or event["statusUpdate"])["status"]["state"]
    return text, state


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pypi.install(tmp_path_factory.mktemp("a2a"), SDK)


@pytest.fixture(scope="module")
def connect(python: Path, live_komand: LiveKomand) -> Iterator[Callable[[str], SdkClient]]:
    with ExitStack() as stack:

        def connect(binding: str) -> SdkClient:
            given = {"url": live_komand.url, "key": live_komand.api_key, "agent": "default", "binding": binding}
            client = SdkClient(python, **given)
            stack.enter_context(client.process)  # closes its pipes, and waits for it
            stack.callback(client.process.kill)
            assert list(client.events()) == [] and client.error == ""
            return client

        yield connect


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def client(request: pytest.FixtureRequest, connect: Callable[[str], SdkClient]) -> SdkClient:
    return connect(request.param)


def test_a_task_from_its_message_to_the_list(client: SdkClient) -> None:
    sent = message("[[text=Hello]]")
    [first], [again] = client.call("send", **sent), client.call("send", **sent)
    task = first["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED" and again == first
    assert task["artifacts"][0]["parts"][0]["text"] == "Hello"
    assert client.call("get_task", id=task["id"]) == [task]
    [listed] = client.call("list_tasks", contextId=task["contextId"], includeArtifacts=True, pageSize=5)
    assert listed["totalSize"] == 1 and listed["tasks"][0]["artifacts"] == task["artifacts"]
    assert client.refusal("get_task", id=str(uuid4())) == "TaskNotFoundError"
    assert client.refusal("cancel_task", id=task["id"]) == "TaskNotCancelableError"
    assert client.refusal("subscribe", id=task["id"]) == "UnsupportedOperationError"
    assert client.refusal("send", **message("x", taskId=task["id"])) == "UnsupportedOperationError"
    inside = {"taskId": task["id"], "url": "http://127.0.0.1/"}
    assert client.refusal("create_task_push_notification_config", **inside) == "InvalidParamsError"
    url = {"messageId": "u", "role": "ROLE_USER", "parts": [{"url": "https://example.org/a.txt"}]}
    assert client.refusal("send", message=url) == "ContentTypeNotSupportedError"
    assert client.refusal("list_tasks", pageSize=1000) == "InvalidParamsError"


def test_an_approval_and_a_question_are_answered_by_messages(client: SdkClient) -> None:
    task = client.say(STORE)
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    approval = task["status"]["message"]["parts"][1]["data"]["approvalId"]
    done = client.say(f"approve {approval[-8:]}", taskId=task["id"])
    assert (done["id"], done["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
    events = client.call("stream", **message('[[tool=ask_user args={"question":"Which?","options":["red","blue"]}]]'))
    assert applied(events)[1] == "TASK_STATE_INPUT_REQUIRED"
    task_id = events[0]["task"]["id"]
    text, state = applied(client.call("stream", **message("blue", taskId=task_id)))
    assert state == "TASK_STATE_COMPLETED" and "blue" in text


def test_a_task_is_cancelled(client: SdkClient) -> None:
    sent = message("[[tokens=500 rate=5]]")
    task = client.call("send", **sent, configuration={"returnImmediately": True})[0]["task"]
    assert client.call("cancel_task", id=task["id"])[0]["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_stream_that_a_dead_web_process_cut_is_resumed(
    connect: Callable[[str], SdkClient], live_komand: LiveKomand
) -> None:
    client, web = connect("JSONRPC"), live_komand.pid_of("web")
    client.begin("stream", **message("[[tokens=400 rate=10]]"))
    seen: list[Object] = []
    for event in client.events():
        seen.append(event)
        if len(seen) == 5:
            os.kill(web, signal.SIGKILL)
    assert client.error and "tok399" not in applied(seen)[0]
    wait_for(lambda: _is_up(live_komand.url), 60, "another web process")
    events = client.call("subscribe", id=seen[0]["task"]["id"])
    assert "task" in events[0]
    text, state = applied(events)
    assert state == "TASK_STATE_COMPLETED"
    assert text.split() == [f"tok{number}" for number in range(400)]


def test_states_are_pushed_while_the_worker_is_killed(client: SdkClient, live_komand: LiveKomand) -> None:
    port = int(live_komand.environment["KOMAND_CALLBACK_ALLOW_PRIVATE"].partition(",")[0].rpartition(":")[2])
    with Inbox(port=port) as inbox:
        wanted = {"taskPushNotificationConfig": config(inbox), "returnImmediately": True}
        [begun] = client.call("send", **message("[[tokens=30 rate=10]]"), configuration=wanted)
        named = {"taskId": begun["task"]["id"], "id": begun["task"]["id"]}
        wait_for(lambda: "WORKING" in inbox.states, 30, "the first notification")
        live_komand.kill_runs()
        wait_for(lambda: inbox.states[-1:] == ["COMPLETED"], 60, "the last notification")
        [shown] = client.call("get_task_push_notification_config", **named)
        assert shown == {**named, "url": f"{inbox.url}/hook", "authentication": {"scheme": "Bearer"}}
        assert client.call("list_task_push_notification_configs", taskId=named["taskId"]) == [{"configs": [shown]}]
        assert client.call("delete_task_push_notification_config", **named) == [{}]
        assert client.refusal("get_task_push_notification_config", **named) == "TaskNotFoundError"
        [text] = [update["artifactUpdate"]["artifact"] for update in inbox.updates if "artifactUpdate" in update]
        assert text["parts"][0]["text"].split() == [f"tok{number}" for number in range(30)]
        assert inbox.is_good and inbox.states.count("COMPLETED") == 1


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health/live", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False
