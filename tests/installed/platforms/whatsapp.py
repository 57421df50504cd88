"""WhatsApp: its webhook, at a public address or behind a tunnel."""

import json
from typing import Any

from tests.fakes.whatsapp import (
    APP_SECRET,
    NUMBER_ID,
    TOKEN,
    VERIFY_TOKEN,
    FakeWhatsApp,
    buttons_of,
    message,
    payload,
    shown_text,
    signed_headers,
)
from tests.installed.platforms.base import FORGED, Platform


class WhatsApp(Platform[FakeWhatsApp]):
    channel = "whatsapp"
    registers = True

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeWhatsApp()

    def config(self) -> dict[str, Any]:
        return {"api_url": self.server.url, "phone_number_id": NUMBER_ID}

    def secrets(self) -> dict[str, str]:
        return {"access_token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}

    def sender_id(self, number: int) -> str:
        return f"49151{number:08}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        if not file:
            return message(number, text, sender=person)
        self.server.media[f"77{number:04}"] = file
        document = {"id": f"77{number:04}", "mime_type": "text/plain", "filename": "notes.txt", "caption": text}
        return message(number, sender=person, type="document", document=document)

    def deliver(self, message: Any) -> None:
        assert self._post(message) == 200

    def texts(self, person: str) -> list[str]:
        return [shown_text(message) for message in self._sent(person) if message["type"] != "document"]

    def files(self, person: str) -> list[bytes]:
        ids = [int(message["document"]["id"]) for message in self._sent(person) if message["type"] == "document"]
        return [self.server.uploads[number - 5001] for number in ids]

    def press(self, person: str, label: str) -> None:
        reply = {"id": self.button(lambda: self._button(person, label)), "title": label}
        interactive = {"type": "button_reply", "button_reply": reply}
        self.deliver(message(next(self.numbers), sender=person, type="interactive", interactive=interactive))

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), "another-secret")

    def _button(self, person: str, label: str) -> str | None:
        cards = [buttons_of(one) for one in self._sent(person) if one["type"] == "interactive"]
        return next((card[label] for card in cards if label in card), None)

    def _sent(self, person: str) -> list[dict[str, Any]]:
        return [message for message in self.server.sent if message["to"] == person]

    def _post(self, message: Any, secret: str = APP_SECRET) -> int:
        body = json.dumps(payload(message)).encode()
        return self.post(body, signed_headers(body, secret))
