"""Discord: the Gateway, with and without a public address."""

from typing import Any

from tests.fakes.discord import TOKEN, FakeDiscord, message_event, press_interaction, signed_headers, user
from tests.fakes.http_protocol import HttpRequest
from tests.installed.platforms.base import Platform


class DiscordApi(FakeDiscord):
    """The API, which also keeps the uploads of each chat."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads_of: dict[str, list[bytes]] = {}

    def _take_message(self, channel: str, request: HttpRequest) -> Any:
        if request.headers["content-type"].startswith("multipart/"):
            self.uploads_of.setdefault(channel, []).append(request.body)
        return super()._take_message(channel, request)


class Discord(Platform[DiscordApi]):
    channel = "discord"
    registers = True

    def __init__(self) -> None:
        super().__init__()
        self.server = DiscordApi()

    def config(self) -> dict[str, Any]:
        return {"api_url": f"{self.server.url}/api/v10"}

    def secrets(self) -> dict[str, str]:
        return {"bot_token": TOKEN}

    def sender_id(self, number: int) -> str:
        return str(50_000 + number)

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        name = f"notes-{number}"
        self.server.files[name] = file
        url = f"{self.server.url}/files/{name}"
        sent = {"id": str(number), "filename": "notes.txt", "content_type": "text/plain", "size": len(file), "url": url}
        more = {"attachments": [sent]} if file else {}
        return message_event(number, text, channel=_chat(person), author=user(person), **more)

    def deliver(self, message: Any) -> None:
        self.server.queue(message)

    def texts(self, person: str) -> list[str]:
        return self.server.shown(_chat(person))

    def files(self, person: str) -> list[bytes]:
        return list(self.server.uploads_of.get(_chat(person), ()))

    def press(self, person: str, label: str) -> None:
        message_id, custom_id = self.button(lambda: self._button(person, label))
        pressed = press_interaction(next(self.numbers), custom_id, message_id)
        self.server.queue({**pressed, "channel_id": _chat(person), "user": user(person)}, "INTERACTION_CREATE")

    def forge(self, person: str) -> int | None:
        body = b"{}"
        return self.post(body, {**signed_headers(body), "x-signature-ed25519": "00" * 64})

    def _button(self, person: str, label: str) -> tuple[str, str] | None:
        shown = [one for one in list(self.server.messages.get(_chat(person), ())) if label in self.server.buttons[one]]
        return next(((one, self.server.buttons[one][label]) for one in shown), None)


def _chat(person: str) -> str:
    return f"7{person}"
