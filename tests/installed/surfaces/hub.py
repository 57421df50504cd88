"""The JSON hub protocol over a bare WebSocket."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect

from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore

_END = "\x1e"


class Hub(SurfaceClient):
    name = "hub"

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        arguments: list[Any] = ["default", text, None, [self.upload(file)]] if file else ["default", text]
        return self._show("SendMessage", arguments, on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        return self._show("Resume", [session, ""], on_text)

    def _show(self, target: str, arguments: list[Any], on_text: OnText) -> str:
        """Call a method, and return the answer that comes after it."""
        shown = ""
        with self._connect(self.person.key) as socket:
            socket.send(json.dumps({"protocol": "json", "version": 1}) + _END)
            call = {"type": 1, "invocationId": "1", "target": target, "arguments": arguments}
            socket.send(json.dumps(call) + _END)
            for target, values in self._calls(socket):
                if target == "ReceiveToken":
                    shown += values[1] or ""
                    on_text(shown)
                if target == "ReceiveMessage":
                    assert shown.strip().endswith(values[0]["text"]) or not shown.strip(), (shown, values)
                    return str(values[0]["text"])
        raise AssertionError("the connection ended before the answer")

    def knock(self) -> int:
        headers = {"Authorization": "Bearer sk-user-wrong"}
        return httpx2.post(f"{self.url}/hubs/chat/negotiate", headers=headers, timeout=SECONDS).status_code

    def _connect(self, key: str) -> ClientConnection:
        address = f"{self.url.replace('http', 'ws', 1)}/hubs/chat"
        return connect(address, additional_headers={"Authorization": f"Bearer {key}"}, open_timeout=SECONDS)

    @staticmethod
    def _calls(socket: ClientConnection) -> Iterator[tuple[str, list[Any]]]:
        while True:
            for frame in filter(None, str(socket.recv(SECONDS)).split(_END)):
                message = json.loads(frame)
                assert not message.get("error"), message
                if message.get("type") == 1:
                    yield message["target"], message["arguments"]
