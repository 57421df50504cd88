"""Clients of every surface for one scenario: a message, what workstreams ask a person, and the last answer."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any
from uuid import uuid4

from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client as Browser

from audit_app.kernel.database import in_db
from komand.asgi import application
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Pairing, Session
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from tests.fakes.telegram import FakeTelegram, private_update
from tests.integration.sessions_app.surfaces.test_ag_ui import FrontEnd, of
from tests.integration.sessions_app.surfaces.test_mcp import call as call_mcp
from tests.support import webchat
from tests.support.agents import AgentCaller
from tests.support.channels import add_telegram, telegram
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller
from tools_app.models import Approval, InputRequest

QUESTION = "Which colour?"
_APPROVAL = re.compile(r"approvals/([0-9a-f-]{36})/decide")


class Client:
    """A client over REST, whose requests others use.

    approval, question: what it has to be shown of the requests, besides the question itself; None: nothing.
    """

    approval: str | None = "Decider"
    question: str | None = "Asker"

    def __init__(self, rig: EngineRig, platform: FakeTelegram) -> None:
        self.rig, self.platform = rig, platform
        self.key = create_api_key(rig.owner, "k", scopes=["all", "rights"]).key
        self._streams: list[tuple[LiveCaller, asyncio.Task[Any]]] = []

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        length = str(len(json.dumps(body).encode()) if body else 0)
        caller = LiveCaller(application, bearer=self.key)
        status, text = await caller.ask(method, path, body, Content_Length=length, **headers)
        assert status < 300, (status, text)
        found = json.loads(text)
        return found["data"] if isinstance(found, dict) and "data" in found and path.startswith("/api") else found

    async def open(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        """Send a request whose answer streams."""
        caller = LiveCaller(application, bearer=self.key)
        self._streams.append((caller, asyncio.create_task(caller.ask(method, path, body, **headers))))

    def streamed(self, place: int = 0) -> str:
        """Return what has been streamed since the request of this number."""
        bodies = (each.get("body", b"") for caller, _ in self._streams[place:] for each in caller.sent)
        return b"".join(bodies).decode()

    async def close(self) -> None:
        for caller, stream in self._streams:
            caller.leave()
            await asyncio.wait({stream}, timeout=60)

    async def send(self, text: str) -> None:
        body = {"senderId": "alice", "text": text}
        self.sent = await self.ask("POST", "/api/webchat/message", body, Prefer="respond-async")

    async def shown(self) -> str:
        listed = await self.ask("GET", f"/api/runs/{self.sent['runId']}/workstreams")
        runs = [await self.ask("GET", f"/api/runs/{each['id']}") for each in listed]
        return json.dumps([listed, runs, await self.ask("GET", "/api/approvals?status=pending")])

    async def approve(self) -> None:
        approval = next(iter(_APPROVAL.findall(await self.shown())), "") or await self.pending()
        await self.ask("POST", f"/api/approvals/{approval}/decide", {"decision": "allow_once"})

    async def pending(self) -> str:
        return str((await in_db(Approval.objects.get)).pk)

    async def answer(self, text: str) -> None:
        await self.send(text)

    async def last(self) -> str:
        """Return the answer that it shows once the run has ended."""
        return str((await self.ask("GET", f"/api/sessions/{self.sent['sessionId']}/history"))[-1]["content"])


class Threads(Client):
    """A client of the Threads API, which follows the stream of its thread."""

    async def send(self, text: str) -> None:
        if not self._streams:
            made = await self.ask("POST", "/v1/threads", {"agent_id": "default", "title": "T"})
            self.thread = made.get("thread_id") or made["id"]
        await self.ask("POST", f"/v1/threads/{self.thread}/user_message", {"input_text": text})
        if not self._streams:
            await self.open("GET", f"/v1/threads/{self.thread}/stream")

    async def shown(self) -> str:
        return self.streamed()

    async def last(self) -> str:
        events = re.findall(r"event: text_delta\ndata: (.*)", self.streamed())
        return "".join(json.loads(event)["delta"] for event in events)


class Completions(Client):
    """A client of chat completions: the question ends an answer, and its session is continued."""

    async def send(self, text: str) -> None:
        body: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": text}], "stream": True}
        if self._streams:
            body["metadata"] = {"session_id": str((await in_db(Session.objects.get)).pk)}
        await self.open("POST", "/v1/chat/completions", body)

    async def shown(self) -> str:
        return self._text(0)

    def _text(self, place: int) -> str:
        chunks = [json.loads(line) for line in re.findall(r"data: (\{.*)", self.streamed(place))]
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ()))

    async def last(self) -> str:
        return self._text(1)


class Responses(Client):
    """A client of responses, which continues the one that the question ended."""

    async def send(self, text: str) -> None:
        before = re.findall(r'"id": ?"(resp_[^"]+)"', self.streamed())
        more = {"previous_response_id": before[-1]} if before else {}
        await self.open("POST", "/v1/responses", {"model": "default", "input": text, "stream": True, **more})

    async def shown(self) -> str:
        return self.streamed()

    async def last(self) -> str:
        events = [json.loads(line) for line in re.findall(r"data: (\{.*)", self.streamed(1))]
        return "".join(each["delta"] for each in events if each["type"] == "response.output_text.delta")


class Mcp(Client):
    run: Any = None

    async def send(self, text: str) -> None:
        more = {"session": self.run["session"]} if self.run else {}
        self.run = await call_mcp(self.key, "ask_agent", message=text, wait_seconds=0, **more)

    async def shown(self) -> str:
        return json.dumps(await call_mcp(self.key, "get_run", run=self.run["run"]))

    async def approve(self) -> None:
        asks = (await call_mcp(self.key, "get_run", run=self.run["run"]))["asks"]
        [approval] = [each["approval"] for each in asks if each["kind"] == "approval"]
        await call_mcp(self.key, "decide_approval", approval=approval, decision="allow_once")

    async def last(self) -> str:
        return str((await call_mcp(self.key, "get_run", run=self.run["run"]))["text"])


class AgUi(Client):
    """A front end. A run of it ends once a person is asked, and the next one brings the answers."""

    async def send(self, text: str) -> None:
        self.front, self._before = FrontEnd(self.key), ""
        self._running = asyncio.create_task(self.front.say(text))

    async def shown(self) -> str:
        if self._running.done() and {ask["reason"] for ask in self.front.interrupts} == {"tool_call"}:
            self._resume("")  # the question comes in the next run, if nobody had asked it before
        return self._before + b"".join(each.get("body", b"") for each in self.front.caller.sent).decode()

    def _resume(self, text: str) -> None:
        self._before += json.dumps(self._running.result())
        payloads = {"tool_call": {"approved": True}, "input_required": {"answer": text}}
        answers = [
            {"interruptId": ask["id"], "status": "resolved", "payload": payloads[ask["reason"]]}
            for ask in self.front.interrupts
        ]
        self.front.interrupts = []
        self._running = asyncio.create_task(self.front.run(resume=answers))

    async def approve(self) -> None:
        await self._running

    async def answer(self, text: str) -> None:
        self._resume(text)
        await self._running

    async def last(self) -> str:
        own = [each for each in of(self._running.result(), "TEXT_MESSAGE_CONTENT") if "subagentRunId" not in each]
        return "".join(each["delta"] for each in own)


class AgentMessages(Client):
    approval, question = "one", "two"

    async def send(self, text: str) -> None:
        self.caller = await in_db(AgentCaller, self.rig.owner)
        self.run = await in_db(self.caller.start, text)

    async def _messages(self, kind: AgentMessageType) -> list[Any]:
        return [each for each in await in_db(self.caller.messages, self.run["id"]) if each["t"] == kind]

    async def shown(self) -> str:
        return json.dumps(await self._messages(AgentMessageType.REQUEST_INPUT))

    async def approve(self) -> None:
        await self._respond(await self.pending(), "allow_once")

    async def answer(self, text: str) -> None:
        await self._respond(str((await in_db(InputRequest.objects.get)).pk), text)

    async def _respond(self, request_id: str, text: str) -> None:
        given = {"request_input_response": {"request_id": request_id}}
        sent = await in_db(lambda: self.caller.send(self.run["id"], text, **given))
        assert sent.status == 200, sent

    async def last(self) -> str:
        own = [each for each in await self._messages(AgentMessageType.ANSWER) if "w" not in each]
        return str(own[-1]["m"]) if own else ""


class Hub(Client):
    """A client of SignalR over its WebSocket."""

    async def send(self, text: str) -> None:
        if not hasattr(self, "socket"):
            headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {self.key}".encode())]
            self.socket, self.frames = WebsocketCommunicator(application, "/hubs/chat", headers=headers), list[Any]()
            assert (await self.socket.connect(timeout=60))[0]
            await self.socket.send_to(text_data='{"protocol": "json", "version": 1}\x1e')
        await self._invoke("SendMessage", "default", text)

    async def _invoke(self, method: str, *arguments: str) -> None:
        call = {"type": 1, "invocationId": uuid4().hex, "target": method, "arguments": arguments}
        await self.socket.send_to(text_data=f"{json.dumps(call)}\x1e")

    async def _read(self) -> list[Any]:
        with suppress(asyncio.TimeoutError):
            while not await self.socket.receive_nothing(timeout=0.05, interval=0.01):
                frame = await self.socket.receive_from(timeout=1)
                self.frames += [json.loads(record) for record in frame.split("\x1e") if record]
        return [frame for frame in self.frames if frame.get("type") == 1]

    async def shown(self) -> str:
        return json.dumps(await self._read())

    async def approve(self) -> None:
        [asked] = [frame for frame in await self._read() if frame["target"] == "ApprovalRequested"]
        await self._invoke("DecideApproval", asked["arguments"][1]["approvalId"], "allow_once")

    async def last(self) -> str:
        said = [frame["arguments"][0] for frame in await self._read() if frame["target"] == "ReceiveMessage"]
        return str(said[-1]["text"]) if said else ""

    async def close(self) -> None:
        await self.socket.disconnect(timeout=60)


class Page(Client):
    """A browser with the chat page."""

    async def send(self, text: str) -> None:
        self.browser = Browser()
        await in_db(self.browser.force_login, self.rig.owner)
        accepted = await in_db(self.rig.send, text)
        self.session = accepted.session_id

    async def shown(self) -> str:
        return str((await in_db(self.browser.get, f"/chat/{self.session}")).content.decode())

    async def _post(self, path: str, **fields: str) -> None:
        assert (await in_db(self.browser.post, path, fields)).status_code < 400

    async def approve(self) -> None:
        [path] = set(re.findall(r"/chat/approvals/[0-9a-f-]{36}/decide", await self.shown()))
        await self._post(path, decision="allow_once")

    async def answer(self, text: str) -> None:
        [path] = set(re.findall(r"/chat/questions/[0-9a-f-]{36}/answer", await self.shown()))
        await self._post(path, **{"text-0": text})

    async def last(self) -> str:
        answer = (await self.shown()).partition('<article class="answer"')[2].partition('<div class="answer-foot">')[0]
        return answer.rpartition('class="workstream')[2].rpartition("</details>")[2]


class Visitor(Client):
    """A visitor of a site, who may decide nothing: an operator does, over REST."""

    approval = "We are checking this and will answer here."  # what is asked for is not described to visitors

    async def send(self, text: str) -> None:
        if not self._streams:
            await in_db(webchat.add_web)
            self.key, self.operator = webchat.token(), self.key
        sent = await webchat.ask("POST", "site/messages", webchat.message(text), bearer=self.key)
        assert sent.status == 202, sent
        if not self._streams:
            await self.open("GET", "/webchat/site/events", Origin=webchat.SITE)

    async def shown(self) -> str:
        return self.streamed()

    async def approve(self) -> None:
        self.key, visitor = self.operator, self.key
        await in_db(User.objects.filter(pk=self.rig.owner.pk).update, is_superuser=True)
        await self.ask("POST", f"/api/approvals/{await self.pending()}/decide", {"decision": "allow_once"})
        self.key = visitor

    async def last(self) -> str:
        done = re.findall(r"event: message.completed\nid: .*\ndata: (.*)", self.streamed())
        return str(json.loads(done[-1])["html"]) if done else ""


class Chat(Client):
    """A person in a chat of a platform, who is paired with a user that may decide."""

    async def send(self, text: str) -> None:
        if not hasattr(self, "numbers"):
            self.numbers = iter(range(1, 9))
            await in_db(self._pair)
        await asyncio.to_thread(telegram, private_update(next(self.numbers), text))

    def _pair(self) -> None:
        account = add_telegram(self.platform, config={"approvers": ["501"], "drafts": False})
        Pairing.objects.create(account=account, sender_id="501", user=self.rig.owner)
        User.objects.filter(pk=self.rig.owner.pk).update(is_superuser=True)

    async def shown(self) -> str:
        return "\n".join(self.platform.chat(501))

    async def approve(self) -> None:
        await self.send("/approve")

    async def last(self) -> str:
        return self.platform.chat(501)[-1]
