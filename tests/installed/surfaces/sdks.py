"""Clients that are Python packages: `openai`, `ksapi`, `mcp`."""

import asyncio
import base64
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx2
import ksapi
import openai
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore
from tests.surfaces.threads.ksapi_client import Client as ThreadsClient
from tests.surfaces.threads.ksapi_client import read_events, text_of


class _OpenAI(SurfaceClient):
    """Each request is a conversation that no list shows."""

    only_appends = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ids: list[str] = []

    def client(self, key: str = "") -> openai.OpenAI:
        url = f"{self.url}/v1"
        return openai.OpenAI(base_url=url, api_key=key or self.person.key, max_retries=0, timeout=SECONDS)

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        with self.client() as client:
            return self._shown(self.send(client, text, file), on_text)

    def _shown(self, answer: Any, on_text: OnText) -> str:
        shown = ""
        for piece in filter(None, self.pieces(answer)):
            shown += piece
            on_text(shown)
        return shown

    @abstractmethod
    def send(self, client: openai.OpenAI, text: str, file: bytes) -> Any: ...

    @abstractmethod
    def pieces(self, answer: Any) -> Iterator[str]:
        """Yield the pieces of the text, and note the id of the conversation or of the response."""

    def knock(self) -> int:
        with self.client("sk-user-wrong") as client:
            try:
                self.send(client, "hello", b"")
            except openai.AuthenticationError as refused:
                return refused.status_code
        return 200


class Completions(_OpenAI):
    name = "completions"
    follows = False

    def send(self, client: openai.OpenAI, text: str, file: bytes) -> Any:
        content: list[Any] = [{"type": "text", "text": text}]
        if file:
            content.append({"type": "file", "file": {"filename": "notes.txt", "file_data": _data_url(file)}})
        messages: Any = [{"role": "user", "content": content}]
        return client.chat.completions.with_raw_response.create(model="default", messages=messages, stream=True)

    def pieces(self, answer: Any) -> Iterator[str]:
        self.ids.append(answer.headers["x-komand-session"])
        return (one.delta.content for chunk in answer.parse() for one in chunk.choices)

    def sessions(self) -> list[str]:
        return self.ids


class Responses(_OpenAI):
    name = "responses"
    shows_files = False

    def send(self, client: openai.OpenAI, text: str, file: bytes) -> Any:
        content: list[Any] = [{"type": "input_text", "text": text}]
        if file:
            content.append({"type": "input_file", "filename": "notes.txt", "file_data": _data_url(file)})
        message: Any = [{"role": "user", "content": content}]
        return client.responses.with_raw_response.create(model="default", input=message, stream=True)

    def pieces(self, answer: Any) -> Iterator[str]:
        for event in answer.parse():
            if event.type == "response.created":
                self.ids.append(event.response.id)
            if event.type == "response.output_text.delta":
                yield event.delta

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        """Show the run as a response: what shows a response does not note an id."""
        with self.client() as client:
            responses = client.responses.with_raw_response
            return self._shown(responses.retrieve(f"resp_{UUID(run).hex}", stream=True), on_text)

    def stored(self, question: str) -> str:
        with self.client() as client:
            return client.responses.retrieve(self.ids[-1]).output_text


class Threads(SurfaceClient):
    name = "threads"
    sends_files = False

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        client = ThreadsClient(self.url, access_token=self.person.key)
        thread = client.open()
        client.send(thread, text)
        return self.follow(thread.id, "", on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        client = ThreadsClient(self.url, access_token=self.person.key)
        answer = client.threads.stream_thread_without_preload_content(session, _request_timeout=SECONDS)
        events = []
        for event in read_events(line.decode() for line in answer):
            events.append(event)
            if event[1] == "text_delta":
                on_text(text_of(events))
            if event[2] == "[DONE]":
                break
        answer.close()
        return text_of(events)

    def knock(self) -> int:
        try:
            ThreadsClient(self.url, access_token="sk-user-wrong").open()
        except ksapi.exceptions.UnauthorizedException as refused:
            return int(refused.status or 0)
        return 200


class Mcp(SurfaceClient):
    """The tool `ask_agent`, and `get_run` until the run has ended."""

    name = "mcp"
    is_live = False
    sends_files = False

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        return asyncio.run(self._call("ask_agent", message=text))

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        return asyncio.run(self._call("get_run", run=run))

    async def _call(self, tool: str, **arguments: str) -> str:
        """Call a tool that returns a run, and return the answer of that."""
        http = httpx2.AsyncClient(headers=self.headers, timeout=SECONDS)
        async with http, McpClient(streamable_http_client(f"{self.url}/mcp", http_client=http)) as mcp:
            result = await mcp.call_tool(tool, arguments)
            while (found := result.structured_content or {}).get("status") in ("queued", "running"):
                result = await mcp.call_tool("get_run", {"run": found["run"], "wait_seconds": 20})
        assert not result.is_error and found["status"] == "completed", result
        return str(found["text"])

    def knock(self) -> int:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Authorization": "Bearer sk-user-wrong"}
        return httpx2.post(f"{self.url}/mcp", json=ping, headers=headers, timeout=SECONDS).status_code


def _data_url(file: bytes) -> str:
    return f"data:text/plain;base64,{base64.b64encode(file).decode()}"
