"""Signal: the stream of signal-cli's daemon."""

import base64
import json
from typing import Any

from tests.fakes.signal_daemon import NUMBER, FakeSignal, event
from tests.installed.platforms.base import Platform


class Daemon(FakeSignal):
    """The daemon, which also keeps what each chat shows, by the time of the message."""

    def __init__(self) -> None:
        super().__init__()
        self.chats: dict[str, dict[int, dict[str, Any]]] = {}

    def _send(self, call: dict[str, Any], params: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        answer = super()._send(call, params)
        sent = json.loads(answer[2]).get("result", {"timestamp": 0})
        self.chats.setdefault(params["recipient"][0], {})[sent["timestamp"]] = params
        return answer


class Signal(Platform[Daemon]):
    channel = "signal"
    buttons = False

    def __init__(self) -> None:
        super().__init__()
        self.server = Daemon()

    def config(self) -> dict[str, Any]:
        return {"url": self.server.url, "number": NUMBER}

    def secrets(self) -> dict[str, str]:
        return {}

    def sender_id(self, number: int) -> str:
        return f"bbbbbbbb-0000-4000-8000-{number:012}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        name = f"notes-{number}"
        self.server.files[name] = file
        sent = {"id": name, "contentType": "text/plain", "filename": "notes.txt", "size": len(file)}
        return event(number, text, sender=person, **({"attachments": [sent]} if file else {}))

    def deliver(self, message: Any) -> None:
        self.server.waiting.append(message)

    def texts(self, person: str) -> list[str]:
        return [sent["message"] for sent in self._shown(person) if sent["message"]]

    def files(self, person: str) -> list[bytes]:
        sent = [one for params in self._shown(person) for one in params.get("attachments", ())]
        return [one.encode() + base64.b64decode(one.partition("base64,")[2]) for one in sent]

    def _shown(self, person: str) -> list[dict[str, Any]]:
        return list(self.server.chats.get(person, {}).values())
