"""Programs that speak A2A, AG-UI and ZeroClaw's protocol, without an SDK."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
from websockets.sync.client import connect

from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore


def _events(url: str, body: Any, headers: dict[str, str]) -> Iterator[Any]:
    """Yield the data of the events that answer a POST."""
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=SECONDS) as stream:
        assert stream.status_code == 200, stream.read()
        for line in stream.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


class A2A(SurfaceClient):
    """An agent that gives tasks, each in a context of its own."""

    name = "a2a"
    shows_files = follows = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tasks: dict[str, dict[str, str]] = {}

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        notes = [{"raw": base64.b64encode(file).decode(), "filename": "notes.txt"}] if file else []
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}, *notes]}
        shown = ""
        for event in _events(
            f"{self.url}/a2a/default/message:stream", {"message": message}, self._sent(self.person.key)
        ):
            if "task" in event:  # with the answer, if it came before the stream began
                self.tasks[text] = event["task"]
                shown = "".join(one["parts"][0]["text"] for one in event["task"].get("artifacts", ()))
            elif change := event.get("artifactUpdate"):
                piece = change["artifact"]["parts"][0]["text"]
                shown = shown + piece if change["append"] else piece
                on_text(shown)
        return shown

    def knock(self) -> int:
        return httpx2.get(
            f"{self.url}/a2a/default/tasks", headers=self._sent("sk-user-wrong"), timeout=SECONDS
        ).status_code

    def stored(self, question: str) -> str:
        url = f"{self.url}/a2a/default/tasks/{self.tasks[question]['id']}"
        task = httpx2.get(url, headers=self._sent(self.person.key), timeout=SECONDS).raise_for_status().json()
        return str(task["artifacts"][0]["parts"][0]["text"])

    @staticmethod
    def _sent(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}


class AgUi(SurfaceClient):
    """A front end, with a thread for each message."""

    name = "ag_ui"
    sends_files = shows_files = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._runs: dict[str, Any] = {}

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        message = {"id": str(uuid4()), "role": "user", "content": text}
        body = self._runs[text] = {"threadId": str(uuid4()), "runId": str(uuid4()), "messages": [message]}
        return self._run(body, on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        return self._run({"threadId": session, "runId": run, "messages": []}, on_text)

    def _run(self, body: Any, on_text: OnText) -> str:
        """Return the texts of the agent's messages as the front end has them."""
        texts: dict[str, str] = {}
        for event in _events(f"{self.url}/ag-ui/agents/default", body, self.headers):
            if event["type"] == "MESSAGES_SNAPSHOT":
                own = (each for each in event["messages"] if each["role"] == "assistant")
                texts = {each["id"]: each.get("content") or "" for each in own}
            elif event["type"] == "TEXT_MESSAGE_CONTENT":
                texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
            # An answer that begins again comes as a snapshot, with all of its text.
            if event["type"] in ("MESSAGES_SNAPSHOT", "TEXT_MESSAGE_CONTENT") and (shown := "".join(texts.values())):
                on_text(shown)
        return "".join(texts.values())

    def knock(self) -> int:
        headers = {"Authorization": "Bearer sk-user-wrong"}
        return httpx2.post(f"{self.url}/ag-ui/agents/default", json={}, headers=headers, timeout=SECONDS).status_code

    def stored(self, question: str) -> str:
        """Have the run shown again, to a front end that has nothing of its answer."""
        return self._run(self._runs[question], ignore)


class ZeroClaw(SurfaceClient):
    """The chat of ZeroClaw's clients, with a session for each message."""

    name = "zeroclaw"
    sends_files = shows_files = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._named: dict[str, str] = {}

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        session = self._named[text] = uuid4().hex
        return self._show(session, json.dumps({"type": "message", "content": text}), on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        return self._show(session, json.dumps({"type": "connect"}), on_text)

    def _show(self, session: str, frame_sent: str, on_text: OnText) -> str:
        """Open a session, send a frame and return the next answer."""
        address = f"{self.url.replace('http', 'ws', 1)}/zeroclaw/ws/chat?agent=default&session_id={session}"
        shown = ""
        with connect(address, additional_headers=self.headers, open_timeout=SECONDS) as socket:
            socket.send(frame_sent)
            while (frame := json.loads(socket.recv(SECONDS)))["type"] != "done":
                assert frame["type"] != "error", frame
                if frame["type"] == "chunk":
                    shown += frame["content"]
                    on_text(shown)
        assert shown.strip().endswith(frame["full_response"].strip()), (shown, frame)
        return str(frame["full_response"])

    def knock(self) -> int:
        headers = {"Authorization": "Bearer sk-user-wrong"}
        return httpx2.get(f"{self.url}/zeroclaw/api/sessions", headers=headers, timeout=SECONDS).status_code

    def stored(self, question: str) -> str:
        url = f"{self.url}/zeroclaw/api/sessions/{self._named[question]}/messages"
        found = httpx2.get(url, headers=self.headers, timeout=SECONDS).raise_for_status().json()["messages"]
        return str(found[-1]["content"])
