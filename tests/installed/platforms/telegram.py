"""Telegram: long polling without a public address, else its webhook."""

import json
from typing import Any

from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, press_update, private_update
from tests.installed.platforms.base import FORGED, Platform


class Telegram(Platform[FakeTelegram]):
    channel = "telegram"
    registers = True

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeTelegram()

    def config(self) -> dict[str, Any]:
        return {"api_url": self.server.url, "bot_username": BOT_NAME}

    def secrets(self) -> dict[str, str]:
        return {"bot_token": TOKEN}

    def sender_id(self, number: int) -> str:
        return str(500 + number)

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        if not file:
            return private_update(number, text, user=int(person))
        name = f"notes-{number}"
        self.server.files[name] = file
        document = {"file_id": name, "file_name": "notes.txt"}
        return private_update(number, "", user=int(person), caption=text, document=document)

    def deliver(self, message: Any) -> None:
        if self.has_public_address:
            secret = self.server.webhook["secret_token"]
            assert self._post(message, secret) == 200
        else:
            self.server.queue([message])

    def texts(self, person: str) -> list[str]:
        return self.server.chat(int(person))

    def files(self, person: str) -> list[bytes]:
        uploads = [call.fields["multipart"] for call in self.server.calls if call.method == "sendDocument"]
        return [upload.encode() for upload in uploads if f"\r\n{person}\r\n" in upload]

    def press(self, person: str, label: str) -> None:
        data = self.button(lambda: self.server.buttons(int(person)).get(label))
        self.deliver(press_update(next(self.numbers), data, user=int(person)))

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), "another-secret")

    def _post(self, update: Any, secret: str) -> int:
        headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": secret}
        return self.post(json.dumps(update).encode(), headers)
