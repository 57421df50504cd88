"""Streams one answer of the fake model chunk by chunk, at its pace, until a fault stops it."""

import asyncio
import json
import threading
import time
from typing import Any

from tests.fakes.completions import DONE, Chunks, call_fragments, tokens
from tests.fakes.directives import Directives
from tests.fakes.http_protocol import Response

_EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
_FOR_EVER = 3600.0


class PacedAnswer:
    """One answer of the fake model. may_go_on: each release ends one wait of `hold`."""

    def __init__(self, directives: Directives, response: Response, number: int, may_go_on: threading.Semaphore) -> None:
        self._do = directives
        self._response = response
        self._number = number
        self._may_go_on = may_go_on
        self._sent = 0
        self._starts_at = time.monotonic() + directives.first

    async def send(self, body: dict[str, Any], calls: list[tuple[str, str]]) -> None:
        chunks = Chunks(body["model"], self._number)
        self._response.head(200, _EVENT_STREAM)
        self._write(chunks.delta({"role": "assistant", "content": ""}))
        if self._do.reasoning:
            self._write(chunks.delta({"reasoning_content": self._do.reasoning}))
        count = 0
        if not calls or self._do.text:
            for token in tokens(self._do):
                count += 1
                if not await self._pace():
                    return
                self._write(chunks.text(_stamp() if self._do.stamp else token))
        for fragment in call_fragments(self._do, calls):
            if not await self._pace():
                return
            self._write(chunks.delta({"tool_calls": [fragment]}))
        if not await self._pace():
            return
        if not self._do.nofinish:
            self._write(chunks.finish(self._do.finish or ("tool_calls" if calls else "stop")))
        if not self._do.nousage and body.get("stream_options", {}).get("include_usage"):
            self._write(chunks.usage(len(json.dumps(body["messages"])) // 4, count))
        if not self._do.nodone:
            self._write(DONE)
        self._response.end()

    def _write(self, chunk: bytes) -> None:
        if self._do.comments:
            chunk = b": keep-alive\n\nevent: completion\nid: 7\n" + chunk
        self._response.piece(chunk.replace(b"\n", b"\r\n") if self._do.crlf else chunk)

    async def _pace(self) -> bool:
        """Wait until the next chunk is due. Return whether to send it: False if a fault ended the answer."""
        do, at = self._do, self._sent
        self._sent += 1
        if at == do.cut:
            await asyncio.sleep(0.01)  # earlier chunks must be sent first
            self._response.drop()
            return False
        if at == do.hang:
            await asyncio.sleep(_FOR_EVER)
        if at == do.hold:
            await self._hold()
        if at == do.badjson:
            self._write(b'data: {"choices": [{"delta": {"content": "half\n\n')
        if at == do.error:
            error = {"message": do.message, "code": do.code or "server_error", "type": "server_error"}
            self._write(b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        if do.huge and at == 0:
            self._write(b"data: " + b" " * do.huge)
        if do.rate:
            await asyncio.sleep(max(0.0, self._starts_at + at / do.rate - time.monotonic()))
        elif at == 0 and do.first:
            await asyncio.sleep(do.first)
        elif at % 64 == 63:
            await asyncio.sleep(0)
            await self._response.drain()
        return True

    async def _hold(self) -> None:
        while not self._may_go_on.acquire(blocking=False):  # released by another thread
            await asyncio.sleep(0.01)


def _stamp() -> str:
    return f"@{int(time.monotonic() * 1000)} "
