"""Clients of the REST API for tests. They check that every answer has the envelope."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Agent, ModelProvider, Run
from agents_app.types import RunStatus
from audit_app.kernel.ids import new_id
from sessions_app.identity import access_tokens
from sessions_app.models import Session, Turn
from tools_app.models import ToolExecution


@dataclass(frozen=True)
class Answer:
    status: int
    data: Any
    error: str | None
    meta: Any
    headers: dict[str, str]


def read_envelope(status: int, body: bytes, headers: dict[str, str]) -> Answer:
    """Return the answer. Check that it is JSON with the four fields, and has either success or an error text."""
    assert headers["Content-Type"] == "application/json"
    found = json.loads(body)
    assert list(found) == ["success", "data", "error", "meta"]
    assert found["success"] == (status < 400) == (found["error"] is None)
    return Answer(status, found["data"], found["error"], found["meta"], headers)


class RestCaller:
    """A client of /api with the JWT of a user, with another bearer token, or without a credential."""

    def __init__(self, user: User | None = None, *, bearer: str = "") -> None:
        self.user = user
        self._client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        self._bearer = bearer or (access_tokens.open_login(user).access if user else "")

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request. body: a JSON value or raw bytes; headers: as keywords, such as `X_Request_Id="a"`."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._bearer:
            sent.setdefault("Authorization", f"Bearer {self._bearer}")
        content_type = sent.pop("Content-Type", "application/json")
        response = self._client.generic(method, f"/api/{path}", data, content_type=content_type, headers=sent)
        if "Content-Disposition" in response.headers:  # a file
            return Answer(response.status_code, response.content, None, None, dict(response.headers))
        return read_envelope(response.status_code, response.content, dict(response.headers))

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self("POST", path, body if body is not None else {}, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Answer:
        return self("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self("DELETE", path, **headers)


class LiveCaller:
    """A client of a consumer or of the ASGI application. `leave()` disconnects."""

    def __init__(self, application: Any, *, bearer: str = "") -> None:
        self._application = application
        self._bearer = bearer
        self._left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    def leave(self) -> None:
        self._left.set()

    async def __call__(
        self, method: str, path: str, body: Any = None, *, parts: list[bytes] | None = None, **headers: str
    ) -> Answer:
        """Send a request. parts: the raw body in parts. The answer has no status if the client disconnected before."""
        data = parts if parts is not None else [b"" if body is None else json.dumps(body).encode()]
        await self._send_request(method, path, data, headers)
        status, found, body_bytes = self._received()
        if found.get("content-type") != "application/json":
            return Answer(status, body_bytes, None, None, found)
        return read_envelope(status, body_bytes, {"Content-Type": found["content-type"], **found})

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Send a request. Return status and body, for protocols without the envelope."""
        await self._send_request(method, path, [b"" if body is None else json.dumps(body).encode()], headers)
        status, _, data = self._received()
        return status, data.decode()

    async def _send_request(self, method: str, path: str, parts: list[bytes], headers: dict[str, str]) -> None:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        messages[-1]["more_body"] = False
        self.sent = []
        await self._application(self._scope(method, path, headers), self._receiver(messages), self._send)

    def _scope(self, method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
        sent = {"host": "localhost", "content-type": "application/json"}
        if self._bearer:
            sent["authorization"] = f"Bearer {self._bearer}"
        sent |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
        path, _, query = path.partition("?")
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "root_path": "",
            "client": ("127.0.0.1", 5),
            "server": ("localhost", 80),
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
        }

    def _receiver(self, messages: list[dict[str, Any]]) -> Any:
        async def receive() -> dict[str, Any]:
            if messages and not self._left.is_set():
                return messages.pop(0)
            await self._left.wait()
            return {"type": "http.disconnect"}

        return receive

    async def _send(self, message: Any) -> None:
        self.sent.append(dict(message))

    def _received(self) -> tuple[int, dict[str, str], bytes]:
        if not self.sent:
            return 0, {}, b""
        start, *rest = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], headers, b"".join(message.get("body", b"") for message in rest)


def make_user(name: str, **fields: Any) -> User:
    return User.objects.create_user(name, f"{name}@example.org", "secret-enough", **fields)


def make_agent(agent_id: str = "default", **fields: Any) -> Agent:
    """Return an agent that is shared with everyone, unless the fields differ."""
    provider, _ = ModelProvider.objects.get_or_create(name="demo", defaults={"kind": "demo"})
    agent, _ = Agent.objects.get_or_create(
        agent_id=agent_id, defaults={"name": agent_id, "provider": provider, "is_shared_with_everyone": True, **fields}
    )
    return agent


def make_session(owner: User, *, turns: int = 0, key: str = "") -> Session:
    """Return a web chat session of the owner with this number of turns; the first is a user turn."""
    now = timezone.now()
    sender = str(owner.pk)
    session = Session.objects.create(
        key=key or f"WebChat:default:{sender}",
        channel="WebChat",
        sender_id=sender,
        owner=owner,
        agent=make_agent(),
        created_at=now,
        last_active_at=now,
        message_count=turns,
        next_ordinal=turns,
    )
    Turn.objects.bulk_create(
        Turn(session=session, ordinal=i, part=0, role=("user", "assistant")[i % 2], content=f"turn {i}", created_at=now)
        for i in range(turns)
    )
    return session


def make_run(session: Session, status: RunStatus = RunStatus.COMPLETED, **fields: Any) -> Run:
    now = timezone.now()
    ended_at = now if status.is_terminal else None
    ordinal = session.next_ordinal
    Session.objects.filter(pk=session.pk).update(next_ordinal=ordinal + 1)
    session.next_ordinal += 1
    return Run.objects.create(
        conversation_id=session.pk,
        session_key=session.key,
        ordinal=ordinal,
        agent=session.agent,
        status=status.value,
        actor=f"user:{session.owner_id}",
        created_at=now,
        ended_at=ended_at,
        **fields,
    )


def make_execution(run: Run, **fields: Any) -> ToolExecution:
    values = {
        "run_id": run.pk,
        "session_id": run.conversation_id,
        "agent_id": "default",
        "actor": run.actor,
        "step": 0,
        "call_index": 0,
        "call_id": "call_1",
        "tool": "echo",
        "effect": "read",
        "risk": "low",
        "decision": "allow",
        "timeout_seconds": 60,
        "on_done": "agents.advance_run",
        "on_done_queue": "runs",
        "created_at": timezone.now(),
    }
    return ToolExecution.objects.create(id=new_id(), **{**values, **fields})
