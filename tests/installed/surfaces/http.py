"""Programs without an SDK: REST, and agent messages as server-sent events."""

import json
from typing import Any

import httpx2

from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore
from tests.support.live_server import wait_for


class Rest(SurfaceClient):
    """REST, which waits for the whole answer."""

    name = "rest"
    is_live = False

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        attachments = {"attachments": [self.upload(file)]} if file else {}
        answer = self._post({"senderId": self.person.name, "text": text, **attachments}, self.person.key)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["data"]["text"])

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        wait_for(lambda: self.get(f"/api/runs/{run}")["endedAt"], SECONDS, "the end of the run", every=2)
        return str(self.get(f"/api/runs/{run}")["text"])

    def knock(self) -> int:
        return self._post({"senderId": self.person.name, "text": "hello"}, "sk-user-wrong").status_code

    def _post(self, body: Any, key: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.post(f"{self.url}/api/webchat/message?wait=80", json=body, headers=headers, timeout=SECONDS)


class AgentMessages(SurfaceClient):
    """The agent-message protocol, whose files are uploaded on their own."""

    name = "agent_messages"
    sends_files = False

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        return self.follow(self._start(text, self.person.key).raise_for_status().json()["id"], "", on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        """Show the session: it is the run of this protocol."""
        url, chunks = f"{self.url}/api/v1/agents/{session}/stream", ""
        with httpx2.stream("GET", url, headers=self.headers, timeout=SECONDS) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if message.get("t") == AgentMessageType.STREAMING_CHUNK:
                    chunks += message.get("m", "")
                    on_text(chunks)
                if (message.get("d") or {}).get("event_class") == "stream_reset":
                    chunks = ""
                if message.get("t") == AgentMessageType.ANSWER:
                    answer = message["m"]
                if message.get("t") in (AgentMessageType.COMPLETE, AgentMessageType.IDLE):
                    assert chunks in ("", answer), (chunks, answer)
                    return str(answer)
        raise AssertionError("the stream ended before the turn")

    def knock(self) -> int:
        return self._start("hello", "sk-user-wrong").status_code

    def _start(self, text: str, key: str) -> httpx2.Response:
        body = {"interaction": "default", "data": {"task": text}, "interactive": True}
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.post(f"{self.url}/api/v1/agents", json=body, headers=headers, timeout=SECONDS)
