"""A visitor of a site, as the widget speaks: a conversation of its own for each message."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2

from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore

SITE = "https://www.example.org"


class WebChat(SurfaceClient):
    """A visitor of an account that is open to everyone. account: its name."""

    name = "webchat"
    follows = False
    account: str = "site"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._visitors: dict[str, str] = {}

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        token = self._visitors[text] = self._post("sessions", {}).json()["token"]
        attachments = [self._upload(file, token)] if file else []
        sent = {"clientMessageId": str(uuid4()), "text": text, "attachments": attachments}
        assert self._post("messages", sent, token).status_code == 202
        steps: dict[int, str] = {}
        for name, data in self._events(token):
            if name == "message.delta":
                steps[data["step"]] = steps.get(data["step"], "")[: data["seq"]] + data["text"]
                on_text("".join(steps.values()))
            if name == "message.completed":
                return str(data["markdown"])
        raise AssertionError("the stream ended before the answer")

    def knock(self) -> int:
        return self._post("messages", {"clientMessageId": str(uuid4()), "text": "hello"}, "wrong").status_code

    def stored(self, question: str) -> str:
        """Read the conversation from its beginning, as after a reload."""
        events = self._events(self._visitors[question])
        return next(str(data["markdown"]) for name, data in events if name == "message.completed")

    def files(self) -> list[str]:
        """Return the links in the last answer, which begin with the address of the installation."""
        answer = self.stored(list(self._visitors)[-1])
        return re.findall(r"https?://[^\s)\]]+", answer)

    def download(self, address: str) -> bytes:
        origin = self.installation.public_url or self.url
        assert address.startswith(f"{origin}/"), address
        return httpx2.get(self.url + address.removeprefix(origin), timeout=SECONDS).raise_for_status().content

    def _events(self, token: str) -> Iterator[tuple[str, Any]]:
        ticket = self._post("tickets", {}, token).json()["ticket"]
        url = f"{self.url}/webchat/{self.account}/events?ticket={ticket}"
        with httpx2.stream("GET", url, headers={"Origin": SITE}, timeout=SECONDS) as stream:
            name = ""
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    def _upload(self, file: bytes, token: str) -> str:
        headers = {"Origin": SITE, "Authorization": f"Bearer {token}"}
        form = {"file": ("notes.txt", file, "text/plain")}
        answer = httpx2.post(f"{self.url}/webchat/{self.account}/uploads", files=form, headers=headers, timeout=SECONDS)
        return str(answer.raise_for_status().json()["uploadId"])

    def _post(self, path: str, body: Any, token: str = "") -> httpx2.Response:
        headers = {"Origin": SITE, **({"Authorization": f"Bearer {token}"} if token else {})}
        return httpx2.post(f"{self.url}/webchat/{self.account}/{path}", json=body, headers=headers, timeout=SECONDS)
