"""A program behind signed webhooks in both directions."""

import json
from typing import Any

from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tests.installed.platforms.base import FORGED, Platform


class Webhook(Platform[WebhookReceiver]):
    channel = "webhook"
    takes_files = False
    joins_bursts = False

    def __init__(self) -> None:
        super().__init__()
        self.server = WebhookReceiver()

    @property
    def private_addresses(self) -> list[str]:
        return [self.server.address]

    def config(self) -> dict[str, Any]:
        return {"callback_url": f"{self.server.url}/callback"}

    def secrets(self) -> dict[str, str]:
        return {"secret": SECRET}

    def sender_id(self, number: int) -> str:
        return f"u-{number}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        path = f"/notes-{number}"
        self.server.files[path] = file
        sent = {"url": self.server.url + path, "filename": "notes.txt", "mimeType": "text/plain"}
        data = {"senderId": person, "text": text, **({"attachments": [sent]} if file else {})}
        return f"m{number}", {"type": "message.received", "data": data}

    def deliver(self, message: Any) -> None:
        assert self._post(message) == 202

    def texts(self, person: str) -> list[str]:
        return [data["text"] for data in self._shown(person)]

    def press(self, person: str, label: str) -> None:
        action = self.button(lambda: self._button(person, label))
        data = {"senderId": person, "actionId": action}
        self.deliver((f"m{next(self.numbers)}", {"type": "action.performed", "data": data}))

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), "whsec_" + "B" * 40)

    def _shown(self, person: str) -> list[dict[str, Any]]:
        """Return what the program got about a person, each message once."""
        got = {callback.id: callback.body["data"] for callback in list(self.server.callbacks) if callback.is_signed}
        return [data for data in got.values() if data.get("senderId") == person]

    def _button(self, person: str, label: str) -> str | None:
        keys = {key["label"]: key["actionId"] for data in self._shown(person) for key in data.get("buttons", ())}
        return keys.get(label)

    def _post(self, message: tuple[str, Any], secret: str = SECRET) -> int:
        message_id, content = message
        body = json.dumps(content).encode()
        return self.post(body, signed_headers(message_id, body, secret=secret))
