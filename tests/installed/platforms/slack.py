"""Slack: Socket Mode without a public address, else the requests of its Events API."""

import json
from typing import Any
from urllib.parse import urlencode

from tests.fakes.slack import (
    APP_TOKEN,
    BOT_TOKEN,
    SIGNING_SECRET,
    FakeSlack,
    message_payload,
    press_payload,
    signed_headers,
)
from tests.installed.platforms.base import FORGED, Platform

_FORM = {"content-type": "application/x-www-form-urlencoded"}


class Slack(Platform[FakeSlack]):
    channel = "slack"
    registers = True

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeSlack()

    def config(self) -> dict[str, Any]:
        return {"api_url": f"{self.server.url}/api"}

    def secrets(self) -> dict[str, str]:
        received_by = {"signing_secret": SIGNING_SECRET} if self.has_public_address else {"app_token": APP_TOKEN}
        return {"bot_token": BOT_TOKEN, **received_by}

    def sender_id(self, number: int) -> str:
        return f"U{500 + number}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        name = f"notes-{number}"
        self.server.files[name] = file
        url = f"{self.server.url}/files/{name}"
        sent = {"id": name, "name": "notes.txt", "mimetype": "text/plain", "size": len(file), "url_private": url}
        more = {"subtype": "file_share", "files": [sent]} if file else {}
        return message_payload(number, text, user=person, channel=_chat(person), **more)

    def deliver(self, message: Any) -> None:
        if self.has_public_address:
            assert self._post(message) == 200
        else:
            self.server.queue(message)

    def texts(self, person: str) -> list[str]:
        return self.server.shown(_chat(person))

    def files(self, person: str) -> list[bytes]:
        shared = [sent for sent in self.server.shared if sent["channel_id"] == _chat(person)]
        return [file["title"].encode() + self.server.uploads[file["id"]] for sent in shared for file in sent["files"]]

    def press(self, person: str, label: str) -> None:
        ts, value = self.button(lambda: self._button(person, label))
        pressed = press_payload(
            next(self.numbers), value, ts, channel=_chat(person), url=f"{self.server.url}/respond/1"
        )
        pressed["user"]["id"] = person
        if self.has_public_address:
            body = urlencode({"payload": json.dumps(pressed)}).encode()
            assert self.post(body, {**signed_headers(body), **_FORM}) == 200
        else:
            self.server.queue(pressed, kind="interactive")

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), "another-secret") if self.has_public_address else None

    def _button(self, person: str, label: str) -> tuple[str, str] | None:
        shown = [(key[1], keys) for key, keys in list(self.server.buttons.items()) if key[0] == _chat(person)]
        return next(((ts, keys[label]) for ts, keys in shown if label in keys), None)

    def _post(self, payload: Any, secret: str = SIGNING_SECRET) -> int:
        body = json.dumps(payload).encode()
        return self.post(body, signed_headers(body, secret=secret))


def _chat(person: str) -> str:
    return person.replace("U", "D")
