"""The web chat of a site: its users, who read the events of their conversation."""

import hashlib
import hmac
import json
import threading
from contextlib import nullcontext, suppress
from typing import Any
from uuid import uuid4

import httpx2

from tests.installed.platforms.base import FORGED, SECONDS, Platform

SITE, IDENTITY_SECRET = "https://www.example.org", "identity-secret-of-the-site-0123456789"


class Web(Platform[Any]):
    channel = "web"
    takes_files = False
    joins_bursts = False  # its page reads a refusal, as a program does

    def __init__(self) -> None:
        super().__init__()
        self.server = nullcontext()
        self._pages: dict[str, Page] = {}

    def config(self) -> dict[str, Any]:
        return {"origins": [SITE]}

    def secrets(self) -> dict[str, str]:
        return {"identity_secret": IDENTITY_SECRET}

    def sender_id(self, number: int) -> str:
        return f"user-{number}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        page = self._page(person)
        uploads = [page.upload(file)] if file else []
        body = {"clientMessageId": str(uuid4()), "text": text, "attachments": uploads}
        return person, body

    def deliver(self, message: Any) -> None:
        person, body = message
        page = self._page(person)
        answer = page.post("messages", body)
        assert answer.status_code in (200, 202), answer.text
        page.follow()

    def texts(self, person: str) -> list[str]:
        return self._page(person).texts()

    def press(self, person: str, label: str) -> None:
        page = self._page(person)
        answer = page.post("actions", {"actionId": self.button(lambda: page.choices().get(label))})
        assert answer.status_code == 202

    def forge(self, person: str) -> int | None:
        body = {"clientMessageId": str(uuid4()), "text": FORGED, "attachments": []}
        return self._page(person).post("messages", body, origin="https://evil.example").status_code

    def _page(self, person: str) -> "Page":
        if person not in self._pages:
            self._pages[person] = Page(f"{self.installation.url}/webchat/main", person)
        return self._pages[person]


class Page:
    """The chat of one user in a page of the site. url: of the account."""

    def __init__(self, url: str, person: str) -> None:
        self._url, self._token = url, ""
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._reader = threading.Thread(target=self._read, name=f"page-{person}", daemon=True)
        user_hash = hmac.new(IDENTITY_SECRET.encode(), person.encode(), hashlib.sha256).hexdigest()
        opened = self.post("sessions", {"userId": person, "userHash": user_hash})
        assert opened.status_code == 201, opened.text
        self._token = opened.json()["token"]

    def post(self, path: str, body: Any, *, origin: str = SITE) -> httpx2.Response:
        return httpx2.post(f"{self._url}/{path}", json=body, headers=self._headers(origin), timeout=SECONDS)

    def upload(self, content: bytes) -> str:
        """Return the id of an uploaded file notes.txt."""
        files = {"file": ("notes.txt", content, "text/plain")}
        made = httpx2.post(f"{self._url}/uploads", files=files, headers=self._headers(SITE), timeout=SECONDS)
        return str(made.json()["uploadId"])

    def follow(self) -> None:
        """Read the events from the first message on, in a thread, as a page does."""
        if not self._reader.is_alive():
            self._reader.start()

    def texts(self) -> list[str]:
        """Return the questions and the answers that the page shows."""
        shown = {"message.completed": "markdown", "approval.requested": "title", "error": "markdown"}
        return [data[shown[name]] for name, data in list(self._events) if name in shown]

    def choices(self) -> dict[str, str]:
        asked = [data["choices"] for name, data in list(self._events) if name == "approval.requested"]
        return {choice["label"]: choice["id"] for choices in asked for choice in choices}

    def _headers(self, origin: str) -> dict[str, str]:
        return {"Origin": origin, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}

    def _read(self) -> None:
        ticket = self.post("tickets", {})
        if ticket.status_code != 201:
            return  # a user whose messages are refused has no conversation
        # The installation ends the stream when it stops.
        with suppress(httpx2.HTTPError), httpx2.Client(timeout=None) as client:
            events = f"{self._url}/events?ticket={ticket.json()['ticket']}"
            with client.stream("GET", events, headers=self._headers(SITE)) as stream:
                name = ""
                for line in stream.iter_lines():
                    field, _, value = line.partition(": ")
                    name = value if field == "event" else name
                    if field == "data":
                        self._events.append((name, json.loads(value)))
