"""A fake server that answers with recorded bytes, and keeps the requests."""

import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.http_protocol import HttpRequest, Response
from tests.fakes.http_server import FakeServer

_CONTENT_TYPES = {".sse": "text/event-stream", ".json": "application/json"}


@dataclass(frozen=True)
class Recorded:
    """A recorded response. piece_bytes: size of the pieces in which it is sent; 0 for one piece."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200
    piece_bytes: int = 0

    @classmethod
    def of_file(cls, path: Path, *, piece_bytes: int = 0) -> "Recorded":
        return cls(path.read_bytes(), _CONTENT_TYPES[path.suffix], piece_bytes=piece_bytes)

    @classmethod
    def refusal(cls, status: int, **error: Any) -> "Recorded":
        return cls(json.dumps({"error": error}).encode(), "application/json", status)


class ReplayServer(FakeServer):
    """Answers each request with the next recorded response; the last one repeats. bodies: the requests, as JSON."""

    def __init__(self, *responses: Recorded) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self._responses = deque(responses)

    def replay(self, *responses: Recorded) -> None:
        """Answer the next requests with these instead."""
        self._responses = deque(responses)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        self.bodies.append(json.loads(request.body))
        recorded = self._responses.popleft() if len(self._responses) > 1 else self._responses[0]
        response.head(recorded.status, {"content-type": recorded.content_type})
        size = recorded.piece_bytes or len(recorded.body)
        for start in range(0, len(recorded.body), size):
            response.piece(recorded.body[start : start + size])
        response.end()
