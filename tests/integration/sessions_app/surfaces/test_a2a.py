"""A2A in both bindings: tasks, streams, requests to people, cancellation, lists, errors. Access: objects of others."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from channels.routing import URLRouter

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.services import decide_approval
from audit_app.kernel.database import in_db
from sessions_app import services
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session, Turn
from sessions_app.surfaces.a2a import queries
from sessions_app.surfaces.a2a.consumers import routes
from tests.support.conditions import happens
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller, make_user
from tests.support.team_script import TeamScript
from tools_app.models import Approval, InputRequest
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

Object = dict[str, Any]
STORE = ToolCall("c1", "memory_store", '{"key": "car", "text": "blue"}')
STORE_TOO = ToolCall("c2", "memory_store", '{"key": "hat", "text": "red"}')
ASK = ToolCall("c4", "ask_user", '{"question": "Which colour?", "options": ["red", "blue"], "allow_text": false}')
WRITE = ToolCall("c5", "write_artifact", '{"path": "files/a.txt", "content": "hello"}')
LAUNCH = ToolCall("c7", "launch_workstream", '{"id": "b", "name": "Bee", "instruction": "Ask."}')
FREE = {"auto_approve": ["write_artifact"]}
VERSION = {"A2A_Version": "1.0"}
_ROUTES: dict[str, tuple[str, str]] = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "ListTasks": ("GET", "/tasks"),
    "GetTask": ("GET", "/tasks/{}"),
    "CancelTask": ("POST", "/tasks/{}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{}/pushNotificationConfigs/{}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{}/pushNotificationConfigs/{}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


class Refused(Exception):
    """An error of the protocol. code: of JSON-RPC, or the reason of HTTP+JSON."""

    def __init__(self, code: Any, error: Object) -> None:
        super().__init__(code, error)
        self.code, self.error = code, error


class Client:
    """A client of one binding. `call` returns a result, or the events of a stream."""

    def __init__(self, key: str, *, is_rest: bool = False, agent: str = "default") -> None:
        self.caller = LiveCaller(URLRouter(routes), bearer=key)
        self.is_rest, self.base = is_rest, f"/a2a/{agent}"

    async def call(self, method: str, **params: Any) -> Any:
        status, text = await self.send(method, **params)
        if text.startswith("data: "):
            lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
            return [self._read(200, json.loads(line)) for line in lines]
        return self._read(status, json.loads(text))

    async def send(self, method: str, **params: Any) -> tuple[int, str]:
        if not self.is_rest:
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            return await self.caller.ask("POST", self.base, body, **VERSION)
        verb, route = _ROUTES[method]
        task_id = params.pop("taskId", "") if "pushNotification" in route else params.pop("id", "")
        route = route.format(task_id, params.pop("id", "") if route.endswith("/{}") else "")
        if verb == "POST":
            return await self.caller.ask(verb, self.base + route, params, **VERSION)
        query = "&".join(f"{name}={str(value).lower() if value is True else value}" for name, value in params.items())
        return await self.caller.ask(verb, f"{self.base}{route}?{query}", **VERSION)

    def _read(self, status: int, body: Object) -> Any:
        if self.is_rest:
            if "error" in body:
                assert status == body["error"]["code"]
                raise Refused(body["error"]["details"][0]["reason"], body["error"])
            return body
        assert status == 200 and body["id"] == 7 and body["jsonrpc"] == "2.0"
        if "error" in body:
            raise Refused(body["error"]["code"], body["error"])
        return body["result"]

    async def say(self, text: Any, **fields: Any) -> Object:
        found: Object = (await self.call("SendMessage", **message(text, **fields)))["task"]
        return found

    async def stream(self, text: Any, **fields: Any) -> list[Object]:
        found: list[Object] = await self.call("SendStreamingMessage", **message(text, **fields))
        return found

    async def refusal(self, method: str, **params: Any) -> Any:
        with pytest.raises(Refused) as refused:
            await self.call(method, **params)
        return refused.value.code


def message(text: Any, *, configuration: Object | None = None, **fields: Any) -> Object:
    """Return the parameters of SendMessage. text: or parts."""
    parts = [{"text": text}] if isinstance(text, str) else text
    whole = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": parts, **fields}
    return {"message": whole, **({"configuration": configuration} if configuration else {})}


def state(task: Object) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def answer(task: Object) -> str:
    return "".join(part["text"] for each in task["artifacts"] for part in each["parts"] if each["name"] == "answer")


def applied(events: list[Object]) -> tuple[str, str]:
    """Return the answer and the state that a client has after a stream."""
    first, *rest = events
    text, last = answer({"artifacts": [], **first["task"]}), state(first["task"])
    for event in rest:
        if change := event.get("artifactUpdate"):
            if change["artifact"]["artifactId"] == "answer":
                piece = change["artifact"]["parts"][0]["text"]
                text = text + piece if change["append"] else piece
        else:
            last = state(event["statusUpdate"])
    return text, last


@pytest.fixture
def key(alice: Any, settings: Any) -> str:
    settings.KOMAND_APPROVERS = "owners"
    return create_api_key(alice, "k", scopes=["all"]).key


@pytest.fixture(params=[False, True], ids=["jsonrpc", "rest"])
def client(request: pytest.FixtureRequest, key: str) -> Client:
    return Client(key, is_rest=request.param)


async def test_a_task_is_answered_read_listed_and_not_run_twice(rig: EngineRig, client: Client) -> None:
    await in_db(
        rig.agent, Reply(("Let me see.",), tool_calls=(WRITE,)), Reply(("It is ", "42.")), Reply(("Again.",)), **FREE
    )
    sent = message("What is 6*7?", configuration={"historyLength": 1})
    task = (await client.call("SendMessage", **sent))["task"]
    assert (state(task), answer(task)) == ("COMPLETED", "It is 42.")
    assert len(task["history"]) == 1
    [file] = [each for each in task["artifacts"] if each["name"] == "files/a.txt"]
    assert base64.b64decode(file["parts"][0]["raw"]) == b"hello" and file["parts"][0]["filename"] == "a.txt"
    again = (await client.call("SendMessage", **sent))["task"]
    assert again == task and await in_db(Run.objects.count) == 1
    read = await client.call("GetTask", id=task["id"])
    assert [(each["role"], each["parts"][0]["text"]) for each in read["history"]] == [
        ("ROLE_USER", "What is 6*7?"),
        ("ROLE_AGENT", "Let me see."),
    ]
    assert read["history"][0]["messageId"] == sent["message"]["messageId"]
    assert "history" not in await client.call("GetTask", id=task["id"], historyLength=0)
    other = await client.say("Again?", contextId=task["contextId"])
    assert other["contextId"] == task["contextId"] and other["id"] != task["id"] and answer(other) == "Again."
    pages = await client.call("ListTasks", pageSize=1)
    assert (pages["totalSize"], pages["pageSize"]) == (2, 1) and "artifacts" not in pages["tasks"][0]
    rest = await client.call("ListTasks", pageSize=1, pageToken=pages["nextPageToken"], includeArtifacts=True)
    assert [each["id"] for each in (*pages["tasks"], *rest["tasks"])] == [other["id"], task["id"]]
    assert rest["nextPageToken"] == "" and answer(rest["tasks"][0]) == "It is 42."
    of_context = await client.call("ListTasks", contextId=task["contextId"], status="TASK_STATE_COMPLETED")
    assert of_context["totalSize"] == 2
    for none in ({"contextId": "another"}, {"status": "TASK_STATE_WORKING"}):
        assert (await client.call("ListTasks", **none))["totalSize"] == 0
    last = (await client.call("GetTask", id=other["id"]))["status"]["timestamp"]
    assert (await client.call("ListTasks", statusTimestampAfter="2999-01-01T00:00:00Z"))["totalSize"] == 0
    assert (await client.call("ListTasks", statusTimestampAfter=last))["totalSize"] == 1


async def test_a_stream_begins_with_the_task_and_ends_with_its_status(rig: EngineRig, client: Client) -> None:
    await in_db(rig.agent, Reply(("Let me ", "see."), tool_calls=(WRITE,)), Reply(("It is ", "42.")), **FREE)
    events = await client.stream("What is 6*7?")
    assert list(events[0]) == ["task"] and state(events[-1]["statusUpdate"]) == "COMPLETED"
    assert applied(events) == ("It is 42.", "COMPLETED")
    files = [each["artifactUpdate"]["artifact"]["name"] for each in events if "artifactUpdate" in each]
    assert files.count("files/a.txt") == 1


async def test_an_approval_is_decided_by_a_message_that_names_it(rig: EngineRig, client: Client) -> None:
    await in_db(rig.agent, Reply(tool_calls=(STORE, STORE_TOO)), Reply(("Stored.",)))
    task = await client.say("remember")
    assert state(task) == "AUTH_REQUIRED" and task["status"]["message"]["role"] == "ROLE_AGENT"
    text, data = (part.get("text") or part.get("data") for part in task["status"]["message"]["parts"])
    assert "memory_store" in text and "Assistant" in text and data["arguments"]["key"] in ("car", "hat")
    listed = await client.call("ListTasks", status="TASK_STATE_AUTH_REQUIRED")
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    for unclear in ("approve", "yes", "approve 00000000", [{"data": {"approvalId": str(uuid4()), "decision": "deny"}}]):
        refused = await client.refusal("SendMessage", **message(unclear, taskId=task["id"]))
        assert refused in (-32602, "INVALID_PARAMS")
    assert await in_db(Approval.objects.filter(status="pending").count) == 2
    said = message(f"approve {data['approvalId'][-8:]}", taskId=task["id"])
    asked = (await client.call("SendMessage", **said))["task"]
    following = asked["status"]["message"]["parts"][1]["data"]
    assert state(asked) == "AUTH_REQUIRED" and following["approvalId"] != data["approvalId"]
    again = (await client.call("SendMessage", **said))["task"]
    assert state(again) == "AUTH_REQUIRED", "sent again, it decides no other call"
    decision = {"approvalId": following["approvalId"], "decision": "deny", "note": "It is green."}
    done = await client.say([{"data": decision}], taskId=task["id"], contextId=task["contextId"])
    assert (done["id"], state(done), answer(done)) == (task["id"], "COMPLETED", "Stored.")
    assert await in_db(lambda: sorted(Approval.objects.values_list("status", flat=True))) == ["approved", "denied"]


@pytest.mark.parametrize("reply", ["blue", [{"data": {"answer": "blue"}}], [{"data": "blue"}]])
async def test_a_question_is_answered_by_a_message_to_the_task(rig: EngineRig, client: Client, reply: Any) -> None:
    await in_db(rig.agent, Reply(tool_calls=(ASK,)), Reply(("Blue it is.",)))
    events = await client.stream("paint it")
    task = events[0]["task"]
    assert applied(events)[1] == "INPUT_REQUIRED", "the stream ends where the client has to act"
    text, data = (
        part.get("text") or part.get("data") for part in events[-1]["statusUpdate"]["status"]["message"]["parts"]
    )
    assert "Which colour?" in text and [each["label"] for each in data["questions"][0]["options"]] == ["red", "blue"]
    said = message(reply, taskId=task["id"])
    done = (await client.call("SendMessage", **said))["task"]
    assert (state(done), answer(done)) == ("COMPLETED", "Blue it is.")
    assert [each["parts"][0]["text"] for each in done["history"]][:3] == ["paint it", "Which colour?", "blue"]
    assert done["history"][2]["messageId"] == said["message"]["messageId"]
    assert (await client.call("SendMessage", **said))["task"]["id"] == task["id"], "sent again"
    assert await in_db(Run.objects.count) == 1
    refused = await client.refusal("SendMessage", **message("green", taskId=task["id"]))
    assert refused in (-32004, "UNSUPPORTED_OPERATION")


async def test_a_question_of_a_workstream_is_one_of_its_task(rig: EngineRig, key: str) -> None:
    team = {"Bee": [Reply(("Secret. ",), tool_calls=(ASK,)), Reply(("Blue.",))]}
    await in_db(rig.agent, Reply(), tool_profile="teams")
    main = [Reply(tool_calls=(LAUNCH,)), Reply(("Asked.",)), Reply(("Blue!",))]
    ScriptedProvider.scripts["script"] = TeamScript(main, team)
    client = Client(key)
    task = await client.say("go")
    assert state(task) == "INPUT_REQUIRED" and "Bee" in task["status"]["message"]["parts"][0]["text"]
    said = message("blue", taskId=task["id"])
    events = await client.call("SendStreamingMessage", **said)
    assert applied(events) == ("Blue!", "COMPLETED") and "Secret" not in json.dumps(events)
    assert (await client.call("SendMessage", **said))["task"]["id"] == task["id"]


async def test_a_question_of_a_workstream_is_answered_while_its_parent_works(rig: EngineRig, client: Client) -> None:
    held = threading.Event()
    team = {"Bee": [Reply(tool_calls=(ASK,)), Reply(("Blue.",))]}
    await in_db(rig.agent, Reply(), tool_profile="teams")
    main = [Reply(tool_calls=(LAUNCH,)), Reply(("Asked.",), held_by=held), Reply(("Blue!",))]
    ScriptedProvider.scripts["script"] = TeamScript(main, team)
    task = await client.say("go", configuration={"returnImmediately": True})
    await happens(lambda: in_db(InputRequest.objects.filter(status="pending").exists))
    await happens(lambda: in_db(Run.objects.filter(parent=None, status="running").exists))
    await client.say("blue", taskId=task["id"], configuration={"returnImmediately": True})
    assert await in_db(lambda: InputRequest.objects.get().status) == "answered"
    held.set()
    await happens(lambda: in_db(Run.objects.filter(parent=None, status="completed").exists))
    assert answer(await client.call("GetTask", id=task["id"])) == "Blue!"


async def test_a_subscriber_gets_the_text_so_far_and_what_follows(rig: EngineRig, client: Client) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("Hello ", "there."), held_by=held))
    now = await client.say("hi", configuration={"returnImmediately": True})
    assert state(now) in ("SUBMITTED", "WORKING")
    watching = asyncio.create_task(client.call("SubscribeToTask", id=now["id"]))
    await happens(lambda: b"Hello " in b"".join(each.get("body", b"") for each in client.caller.sent))
    held.set()
    events = await watching
    assert events[0]["task"]["id"] == now["id"] and applied(events) == ("Hello there.", "COMPLETED")
    refused = await client.refusal("SubscribeToTask", id=now["id"])
    assert refused in (-32004, "UNSUPPORTED_OPERATION")


async def test_a_message_to_a_task_that_works_steers_it(rig: EngineRig, key: str) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("Hello ", "there."), held_by=held), Reply(("In French: salut.",)))
    client = Client(key)
    task = await client.say("hi", configuration={"returnImmediately": True})
    await happens(lambda: in_db(Run.objects.filter(status="running").exists))
    steered = await client.say("in French", taskId=task["id"], configuration={"returnImmediately": True})
    assert steered["id"] == task["id"]
    held.set()
    await happens(lambda: in_db(Run.objects.filter(status="completed").exists))
    assert [each["parts"][0]["text"] for each in (await client.call("GetTask", id=task["id"]))["history"]][:2] == [
        "hi",
        "in French",
    ]
    assert await in_db(Run.objects.count) == 1


async def test_a_task_is_cancelled_with_its_workstreams(rig: EngineRig, client: Client) -> None:
    team = {"Bee": [Reply(("Bzz",), hangs=True)]}
    await in_db(rig.agent, Reply(), tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript([Reply(tool_calls=(LAUNCH,)), Reply(("Waiting.",))], team)
    task = await client.say("go", configuration={"returnImmediately": True})
    await happens(lambda: in_db(Run.objects.filter(parent__isnull=False, status="running").exists))
    assert state(await client.call("CancelTask", id=task["id"])) == "CANCELED"
    await happens(lambda: in_db(lambda: set(Run.objects.values_list("status", flat=True)) == {"cancelled"}))
    assert await client.refusal("CancelTask", id=task["id"]) in (-32002, "TASK_NOT_CANCELABLE")


async def test_a_failed_task_says_why(rig: EngineRig, client: Client) -> None:
    await in_db(rig.agent, Reply(error="model_auth"))
    task = await client.say("hi")
    assert state(task) == "FAILED" and task["status"]["message"]["parts"][0]["text"]


async def test_files_come_in_and_long_ones_go_out_by_address(
    rig: EngineRig, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_db(rig.agent, Reply(tool_calls=(WRITE,)), Reply(("Read.",)), **FREE)
    monkeypatch.setattr(queries, "_MOST_RAW", 3)
    client = Client(key)
    raw = base64.b64encode(b"some text").decode()
    task = await client.say([{"raw": raw, "filename": "notes.txt"}, {"text": "Read it."}, {"data": {"page": 3}}])
    turn = await in_db(Turn.objects.get, role="user")
    assert "some text" in turn.attached and turn.content == 'Read it.\n\n{"page": 3}'
    [part] = [each["parts"][0] for each in task["artifacts"] if each["name"] == "files/a.txt"]
    status, text = await client.caller.ask("GET", "/a2a/" + part["url"].partition("/a2a/")[2])
    assert (status, text) == (200, "hello")
    assert (await client.caller.ask("GET", f"/a2a/default/files/{uuid4()}"))[0] == 404


async def test_a_name_of_the_client_names_a_context_of_its_own(rig: EngineRig, client: Client) -> None:
    await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)))
    first = await client.say("a", contextId="trip")
    second = await client.say("b", contextId="trip")
    assert first["contextId"] == second["contextId"] == "trip" and await in_db(Session.objects.count) == 1
    assert (await client.call("ListTasks", contextId="trip"))["totalSize"] == 2
    refused = await client.refusal("SendMessage", **message("x", taskId=first["id"], contextId="other"))
    assert refused in (-32602, "INVALID_PARAMS")


@pytest.mark.parametrize(
    ("change", "number", "reason"),
    [
        ({"message": None}, -32602, "INVALID_PARAMS"),
        ({"message": {"messageId": ""}}, -32602, "INVALID_PARAMS"),
        ({"message": {"role": "ROLE_AGENT"}}, -32602, "INVALID_PARAMS"),
        ({"message": {"parts": []}}, -32602, "INVALID_PARAMS"),
        ({"message": {"parts": [{"text": "a", "url": "b"}]}}, -32602, "INVALID_PARAMS"),
        ({"message": {"parts": [{"raw": "!"}]}}, -32602, "INVALID_PARAMS"),
        ({"message": {"parts": [{"text": " "}]}}, -32602, "INVALID_PARAMS"),
        ({"message": {"parts": [{"url": "https://example.org/a"}]}}, -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ({"message": {"parts": [{"raw": "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}]}}, -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ({"message": {"taskId": str(uuid4())}}, -32001, "TASK_NOT_FOUND"),
        ({"message": {"taskId": "x" * 201}}, -32602, "INVALID_PARAMS"),
        ({"configuration": {"historyLength": -1}}, -32602, "INVALID_PARAMS"),
        ({"configuration": {"taskPushNotificationConfig": {"url": "x"}}}, -32602, "INVALID_PARAMS"),
    ],
)
@pytest.mark.usefixtures("default_agent")
async def test_unfit_messages_are_refused_and_store_nothing(
    client: Client, change: Object, number: int, reason: str
) -> None:
    given = message("x")
    for name, value in change.items():
        given[name] = {**given.get(name, {}), **value} if value is not None else None
    for method in ("SendMessage", "SendStreamingMessage"):
        assert await client.refusal(method, **given) in (number, reason)
    assert not await in_db(Session.objects.exists)


@pytest.mark.parametrize(
    ("method", "params", "number", "reason"),
    [
        ("GetTask", {"id": str(uuid4())}, -32001, "TASK_NOT_FOUND"),
        ("CancelTask", {"id": "nonsense"}, -32001, "TASK_NOT_FOUND"),
        ("SubscribeToTask", {"id": str(uuid4())}, -32001, "TASK_NOT_FOUND"),
        ("ListTasks", {"pageSize": 101}, -32602, "INVALID_PARAMS"),
        ("ListTasks", {"pageToken": "x"}, -32602, "INVALID_PARAMS"),
        ("ListTasks", {"status": "TASK_STATE_RUNNING"}, -32602, "INVALID_PARAMS"),
        ("ListTasks", {"statusTimestampAfter": "yesterday"}, -32602, "INVALID_PARAMS"),
        ("CreateTaskPushNotificationConfig", {"taskId": "x"}, -32001, "TASK_NOT_FOUND"),
        ("GetExtendedAgentCard", {}, -32004, "UNSUPPORTED_OPERATION"),
    ],
)
@pytest.mark.usefixtures("default_agent")
async def test_unfit_calls_are_refused(client: Client, method: str, params: Object, number: int, reason: str) -> None:
    assert await client.refusal(method, **params) in (number, reason)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}, -32600),
        ([], -32600),
        ({"jsonrpc": "2.0", "id": "a", "method": "tasks/get"}, -32601),
        ({"jsonrpc": "2.0", "id": "a", "method": "GetTask", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": "a", "method": "GetTask"}, -32602),
    ],
)
@pytest.mark.usefixtures("default_agent")
async def test_errors_of_json_rpc(key: str, body: Any, code: int) -> None:
    caller = LiveCaller(URLRouter(routes), bearer=key)
    status, text = await caller.ask("POST", "/a2a/default", body, **VERSION)
    found = json.loads(text)
    assert (status, found["error"]["code"]) == (200, code)
    assert found["id"] == (body.get("id") if isinstance(body, dict) and isinstance(body.get("id"), str | int) else None)
    await caller._send_request("POST", "/a2a/default", [b"{"], VERSION)
    assert json.loads(caller._received()[2])["error"]["code"] == -32700


@pytest.mark.usefixtures("default_agent")
async def test_another_version_is_refused_and_the_query_may_name_it(key: str) -> None:
    caller = LiveCaller(URLRouter(routes), bearer=key)
    for headers in ({}, {"A2A_Version": "0.3"}, {"A2A_Version": "2.0"}):
        status, text = await caller.ask("GET", "/a2a/default/tasks", **headers)
        details = json.loads(text)["error"]["details"]
        assert (status, details[0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
        status, text = await caller.ask("POST", "/a2a/default", {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        assert (status, json.loads(text)["error"]["code"]) == (200, -32009)
    for headers, query in (({"A2A_Version": "1.0.1"}, ""), ({}, "?A2A-Version=1.0")):
        assert (await caller.ask("GET", f"/a2a/default/tasks{query}", **headers))[0] == 200


async def test_the_card_is_for_those_who_may_use_the_agent(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(), description="Helps.")
    path = "/a2a/default/.well-known/agent-card.json"
    status, text = await LiveCaller(URLRouter(routes), bearer=key).ask("GET", path)
    card = json.loads(text)
    assert status == 200 and (card["name"], card["description"]) == ("Assistant", "Helps.")
    assert {each["protocolBinding"] for each in card["supportedInterfaces"]} == {"JSONRPC", "HTTP+JSON"}
    assert all(each["url"] == "http://localhost/a2a/default" for each in card["supportedInterfaces"])
    assert (await LiveCaller(URLRouter(routes)).ask("GET", path))[0] == 401
    await in_db(Agent.objects.update, is_shared_with_everyone=False)
    bob = LiveCaller(URLRouter(routes), bearer=(await in_db(_key_of, "bob")))
    hidden, unknown = await bob.ask("GET", path), await bob.ask("GET", path.replace("default", "nobody"))
    assert hidden[0] == unknown[0] == 404 and hidden[1] == unknown[1].replace("nobody", "default")


async def test_tasks_of_others_and_other_sessions_are_not_found(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(ASK,)), Reply(("Red.",)), Reply(("Hi.",)))
    task = await Client(key).say("paint it")
    bob = Client(await in_db(_key_of, "bob"))
    calls: list[Callable[[Client], Any]] = [
        lambda who: who.refusal("GetTask", id=task["id"]),
        lambda who: who.refusal("CancelTask", id=task["id"]),
        lambda who: who.refusal("SubscribeToTask", id=task["id"]),
        lambda who: who.refusal("SendMessage", **message("red", taskId=task["id"])),
    ]
    assert [await call(bob) for call in calls] == [-32001] * 4
    assert (await bob.call("ListTasks", contextId=task["contextId"]))["totalSize"] == 0
    await in_db(make_other_agent)
    other = Client(key, agent="other")
    assert [await call(other) for call in calls] == [-32001] * 4, "of another agent"
    page = await in_db(lambda: rig.send("hello").run_id)  # by the chat page
    assert await Client(key).refusal("GetTask", id=str(page)) == -32001
    assert (await Client(key).call("ListTasks"))["totalSize"] == 1
    reader = Client((await in_db(create_api_key, rig.owner, "r", scopes=["a2a:read"])).key)
    assert state(await reader.call("GetTask", id=task["id"])) == "INPUT_REQUIRED"
    for method, params in (("SendMessage", message("x")), ("CancelTask", {"id": task["id"]})):
        assert (await reader.send(method, **params))[0] == 403
    assert await in_db(lambda: Run.objects.get(pk=task["id"]).status) == "waiting"


def make_other_agent() -> None:
    default = Agent.objects.get(agent_id="default")
    Agent.objects.create(agent_id="other", name="Other", provider=default.provider, is_shared_with_everyone=True)


def _key_of(name: str) -> str:
    return create_api_key(make_user(name), "k", scopes=["all"]).key


async def test_a_caller_who_may_not_decide_waits_for_one_who_may(rig: EngineRig, key: str, settings: Any) -> None:
    settings.KOMAND_APPROVERS = "operators"
    await in_db(rig.agent, Reply(tool_calls=(STORE,)), Reply(("Stored.",)))
    client = Client(key)
    streaming = asyncio.create_task(client.stream("remember"))
    await happens(lambda: b"AUTH_REQUIRED" in b"".join(each.get("body", b"") for each in client.caller.sent))
    asked = await in_db(Approval.objects.get)
    task_id = str(asked.run_id)
    refused = Client(key)
    assert (await refused.send("SendMessage", **message(f"approve {asked.pk.hex[-8:]}", taskId=task_id)))[0] == 403
    await in_db(lambda: decide_approval(asked.pk, decision="allow_once", actor="user:0"))
    assert applied(await streaming) == ("Stored.", "COMPLETED")


async def test_a_message_that_is_sent_twice_at_once_starts_one_task(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    sent = message("hello")
    found = await asyncio.gather(*(Client(key).call("SendMessage", **sent) for _ in range(3)))
    assert len({each["task"]["id"] for each in found}) == 1 and await in_db(Run.objects.count) == 1


async def test_a_bound_context_belongs_to_another_agent(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Hi.",)))
    await Client(key).say("hello", contextId="trip")
    await in_db(make_other_agent)
    await in_db(lambda: services.bind_session(Session.objects.get(), Agent.objects.get(agent_id="other")))
    assert await Client(key).refusal("SendMessage", **message("x", contextId="trip")) == -32602
