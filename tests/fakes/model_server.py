"""A fake model server: OpenAI's protocol over real HTTP, at a set token rate, with faults on demand.

    python -m tests.fakes.model_server --port 9100 --rate 30 --tokens 150

In tests: `with ModelServer() as server:`, then `server.base_url`, `server.requests` (the last thousand),
`server.count`, `.connections`, `.disconnects`, `server.script("status=500")`.
The directives in the last user message of a request, or the script, determine its answer: see `directives`. Without
any, it calls the tools that the message obviously asks for, if they are offered, and otherwise answers `tok0 tok1 …`.
`POST /audio/transcriptions` answers by the directives within the audio, or by those in `server.speech`,
`POST /embeddings` by those in the first input.
"""

import argparse
import asyncio
import json
import signal
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from agents_app.providers.kinds.demo import intents, response
from tests.fakes import embeddings, transcriptions
from tests.fakes.completions import tokens, whole_answer
from tests.fakes.directives import Directives, read_directives
from tests.fakes.http_protocol import Connection, HttpRequest, Response
from tests.fakes.paced import PacedAnswer

_JSON = {"content-type": "application/json"}
_REMEMBERED = 1000


@dataclass
class ModelCall:
    """One request as received. at: monotonic seconds. body: empty of one without, as for the list of models."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of a request for an answer, none of any other request."""
        return list(self.body.get("messages", ()))


class ModelServer:
    """A server on 127.0.0.1, in its own thread."""

    def __init__(self, *, port: int = 0, api_key: str = "", **defaults: Any) -> None:
        """port: 0 for a free one; api_key: if set, others get 401; defaults: directives for every request."""
        self.port = port
        self.requests: deque[ModelCall] = deque(maxlen=_REMEMBERED)
        self.count = 0
        self.connections = 0
        self.disconnects = 0
        self._api_key = api_key
        self._defaults = defaults
        self.speech: deque[str] = deque()
        self._script: deque[str] = deque()
        self._may_go_on = threading.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        messages: list[dict[str, Any]] = self.requests[-1].body["messages"]
        return messages

    def script(self, *lines: str) -> None:
        """Answer the next requests by these directives, one line each, instead of those in their messages."""
        self._script.extend(lines)

    def clear_script(self) -> None:
        """Remove the rest of the script."""
        self._script.clear()

    def reset(self) -> None:
        """Remove the rest of the script, and what is left of `go_on`: the next `hold` waits again."""
        self.clear_script()
        while self._may_go_on.acquire(blocking=False):
            pass

    def line_of(self, body: dict[str, Any]) -> str:
        """Return the text whose directives determine the answer to a request, unless a script does."""
        return _last_user_text(body)

    def go_on(self, count: int = 1) -> None:
        """Let as many answers continue that wait because of `hold`, or the next ones that would."""
        self._may_go_on.release(count)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure:
            raise self._failure
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._loop:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        transports: set[asyncio.Transport] = set()

        def connect() -> Connection:
            self.connections += 1
            return Connection(self._handle, self._count_disconnect, transports)

        try:
            server = await self._loop.create_server(connect, "127.0.0.1", self.port, backlog=1024)
        except OSError as error:
            self._failure = error
            self._started.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        for transport in transports:
            transport.abort()

    def _count_disconnect(self) -> None:
        if not self._stopping.is_set():
            self.disconnects += 1

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        is_audio = request.path == "/v1/audio/transcriptions"
        body = transcriptions.read_form(request) if is_audio else json.loads(request.body) if request.body else {}
        self.count += 1
        self.requests.append(ModelCall(request.path, request.headers, body))
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            _refuse(response, 401, "Incorrect API key provided.", "invalid_api_key")
        elif request.path == "/v1/models":
            models = {"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "tests"}]}
            response.whole(200, _JSON, json.dumps(models).encode())
        elif is_audio and request.method == "POST":
            await self._transcribe(body, response)
        elif (request.method, request.path) == ("POST", "/v1/embeddings"):
            self._embed(body, response)
        elif (request.method, request.path) != ("POST", "/v1/chat/completions"):
            _refuse(response, 404, f"Unknown request URL: {request.method} {request.path}.", "unknown_url")
        else:
            await self._complete(body, response)

    async def _transcribe(self, body: dict[str, Any], response: Response) -> None:
        """Answer by the directives within the audio, or the next line of `speech`; `text` is what is spoken."""
        line = f"[[{self.speech.popleft()}]]" if self.speech else transcriptions.spoken_directives(body)
        directives = read_directives(line, self._defaults)
        if directives.hold is not None:
            while not self._may_go_on.acquire(blocking=False):  # released by another thread
                await asyncio.sleep(0.01)
        if directives.status != 200:
            _refuse(response, directives.status, directives.message, directives.code, directives.retry_after)
        elif problem := transcriptions.problem_of(body):
            _refuse(response, 400, problem, "invalid_value")
        elif directives.html:
            response.whole(200, {"content-type": "text/html"}, b"<!doctype html><title>Welcome</title>")
        else:
            response.whole(200, _JSON, json.dumps(transcriptions.answer(body, directives)).encode())

    def _embed(self, body: dict[str, Any], response: Response) -> None:
        """Answer by the directives in the first input."""
        directives = read_directives(embeddings.line_of(body), self._defaults)
        if directives.status != 200:
            _refuse(response, directives.status, directives.message, directives.code, directives.retry_after)
        elif problem := embeddings.problem_of(body):
            _refuse(response, 400, problem, "invalid_value")
        elif directives.html:
            response.whole(200, {"content-type": "text/html"}, b"<!doctype html><title>Welcome</title>")
        else:
            response.whole(200, _JSON, json.dumps(embeddings.answer(body, directives)).encode())

    async def _complete(self, body: dict[str, Any], response: Response) -> None:
        line = f"[[{self._script.popleft()}]]" if self._script else self.line_of(body)
        try:
            directives = read_directives(line, self._defaults)
        except (ValueError, IndexError) as error:
            _refuse(response, 400, f"The directives cannot be read: {error!r}", "bad_directives")
            return
        if directives.wait:
            await asyncio.sleep(directives.wait)
        if directives.status != 200:
            _refuse(response, directives.status, directives.message, directives.code, directives.retry_after)
        elif directives.refuse_usage and "stream_options" in body:
            _refuse(response, 400, "Unrecognized request argument supplied: stream_options", "")
        elif directives.refuse_schema and "response_format" in body:
            _refuse(response, 400, "response_format of type json_schema is not supported", "")
        elif directives.refuse_parts and any(isinstance(message["content"], list) for message in body["messages"]):
            _refuse(response, 400, "Invalid content type. image_url is only supported by certain models.", "")
        elif directives.html:
            response.whole(200, {"content-type": "text/html"}, b"<!doctype html><title>Welcome</title>")
        else:
            calls = _calls(directives, body, has_directives="[[" in line)
            if not calls and body["messages"][-1]["role"] == "tool" and not directives.text:
                directives.text = _results_answer(body)
            if directives.json or not body.get("stream"):
                answer = whole_answer(body["model"], "" if calls else "".join(tokens(directives)), calls)
                response.whole(200, _JSON, json.dumps(answer).encode())
            else:
                await PacedAnswer(directives, response, self.count, self._may_go_on).send(body, calls)


def _refuse(response: Response, status: int, message: str, code: str, retry_after: str = "") -> None:
    error = {"error": {"message": message, "type": code or "error", "param": None, "code": code or None}}
    headers = {**_JSON, "retry-after": str(retry_after)} if retry_after else _JSON
    response.whole(status, headers, json.dumps(error).encode())


def _last_user_text(body: dict[str, Any]) -> str:
    texts = [message["content"] for message in body["messages"] if message["role"] == "user"]
    if texts and isinstance(texts[-1], list):
        return "".join(part["text"] for part in texts[-1] if part["type"] == "text")
    return str(texts[-1]) if texts else ""


def _calls(directives: Directives, body: dict[str, Any], *, has_directives: bool) -> list[tuple[str, str]]:
    """Return the tool calls of this answer: none after tool results, unless it loops."""
    if body["messages"][-1]["role"] == "tool" and not directives.loop:
        return []
    if has_directives or not body.get("tools"):
        return directives.calls()
    offered = {tool["function"]["name"] for tool in body["tools"]}
    wanted = intents.find_intents(_last_user_text(body))
    return [(wish.tool, json.dumps(wish.arguments)) for wish in wanted if wish.tool in offered]


def _results_answer(body: dict[str, Any]) -> str:
    """Return an answer with the results of the tools in one paragraph."""
    messages = body["messages"]
    called = max(at for at, message in enumerate(messages) if message.get("tool_calls"))
    calls = {call["id"]: call["function"] for call in messages[called]["tool_calls"]}
    lines = [
        response.describe(call["name"], call["arguments"], message["content"])
        for message in messages[called + 1 :]
        if (call := calls.get(message.get("tool_call_id")))
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake model server that speaks OpenAI's protocol.")
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--rate", type=float, default=30.0, help="tokens a second; 0: as fast as can be")
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--first", type=float, default=0.0, help="seconds before the first token")
    parser.add_argument("--api-key", default="", help="refuse every other key")
    options = parser.parse_args()
    server = ModelServer(
        port=options.port, api_key=options.api_key, rate=options.rate, tokens=options.tokens, first=options.first
    )
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with server:
            sys.stdout.write(f"listening on {server.base_url}\n")
            sys.stdout.flush()
            stopped.wait()
    except OSError as error:
        sys.exit(f"model_server: cannot listen on port {options.port}: {error}")


if __name__ == "__main__":
    main()
