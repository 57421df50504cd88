"""The HTTP daemon of signal-cli over real HTTP: JSON-RPC, and a stream of events that waits for a client."""

import asyncio
import base64
import itertools
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.http_protocol import HttpRequest, Response
from tests.fakes.http_server import FakeServer

NUMBER, UUID = "+4915100000001", "aaaaaaaa-0000-4000-8000-000000000001"
# The daemon comments on an idle stream every 15 s; this one does every 5.
_TURNS_TO_COMMENT = 500
SENDER = "bbbbbbbb-0000-4000-8000-000000000002"


class FakeSignal(FakeServer):
    """A daemon that receives on connection.

    shown: the messages by their time. calls: method and parameters of each. waiting: events that no client has read.
    files: contents by id. failures: types of the results of the next messages. errors: codes of the next calls.
    is_registered: it knows our number. streams: how often one was opened.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.shown: dict[int, str] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.waiting: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.failures: list[str] = []
        self.errors: list[int] = []
        self.is_registered, self.streams = True, 0

    def texts(self) -> list[str]:
        return list(self.shown.values())

    def params(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == method]

    def queue(self, number: int, text: str, **data: Any) -> None:
        self.waiting.append(event(number, text, **data))

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        url = urlsplit(request.path)
        if url.path != "/api/v1/events" or self.faults:
            await super()._handle(request, response)
            return
        if not self.is_registered or parse_qs(url.query).get("account") != [NUMBER]:
            response.whole(400, {}, b"")
            return
        self.streams += 1
        response.head(200, {"content-type": "text/event-stream"})
        for turn in itertools.count():
            if turn % _TURNS_TO_COMMENT == 0:
                response.piece(b":\n")
            if self.waiting:
                data = json.dumps(self.waiting.pop(0))
                response.piece(f"event:receive\ndata:{data}\n\n".encode())
            await asyncio.sleep(0.01)

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.path != "/api/v1/rpc":
            return 404, {}, b""
        call = json.loads(request.body)
        params = dict(call["params"])
        if params.pop("account", None) != NUMBER:
            return self._answer(call, error={"code": -32602, "message": "Specified account does not exist"})
        if self.errors:
            return self._answer(call, error={"code": self.errors.pop(0), "message": "on demand"})
        self.calls.append((call["method"], params))
        match call["method"]:
            case "send":
                return self._send(call, params)
            case "sendTyping":
                return self._answer(call, result={"timestamp": 1})
            case "getAttachment":
                content = self.files.get(params["id"])
                if content is None:
                    return self._answer(call, error={"code": -1, "message": "Could not find attachment"})
                return self._answer(call, result={"data": base64.b64encode(content).decode()})
            case "getUserStatus":
                return self._answer(call, result=[{"recipient": NUMBER, "number": NUMBER, "uuid": UUID}])
        return self._answer(call, error={"code": -32601, "message": "Method not implemented"})

    def _send(self, call: dict[str, Any], params: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        text = params["message"]
        if not text and not params.get("attachments"):
            return self._answer(call, error={"code": -1, "message": "No message text given"})
        if len(text.encode()) > 2000:
            return self._answer(call, error={"code": -1, "message": "too long for clients"})
        for style in params.get("textStyle", ()):
            start, length, _ = style.split(":")
            if int(start) + int(length) > len(text.encode("utf-16-le")) // 2:
                return self._answer(call, error={"code": -1, "message": "Invalid style range"})
        failure = self.failures.pop(0) if self.failures else "SUCCESS"
        at = params.get("editTimestamp") or 1_780_000_000_000 + len(self.calls)
        if failure == "SUCCESS":
            self.shown[at] = text
        return self._answer(call, result={"timestamp": at, "results": [{"type": failure}]})

    @staticmethod
    def _answer(call: dict[str, Any], **content: Any) -> tuple[int, dict[str, str], bytes]:
        body = {"jsonrpc": "2.0", "id": call["id"], **content}
        return 200, {"content-type": "application/json"}, json.dumps(body).encode()


def event(number: int, text: str | None, *, sender: str = SENDER, **data: Any) -> dict[str, Any]:
    """Return an event with a message. data: further fields of the message."""
    at = 1_780_000_000_000 + number
    message = {"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": False, **data}
    return enveloped({"dataMessage": message}, at=at, sender=sender)


def enveloped(content: dict[str, Any], *, at: int = 1_780_000_000_000, sender: str = SENDER) -> dict[str, Any]:
    """Return an event with any content."""
    who = {"source": sender, "sourceNumber": None, "sourceUuid": sender, "sourceName": "Zoë", "sourceDevice": 1}
    return {"envelope": {**who, "timestamp": at, **content}, "account": NUMBER}
