"""Requests of servers during calls: each reaches the person of its own call, or nobody."""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests.support.mcp import GOOD_ENVIRONMENT, LoopThread, process_of
from tools_app.mcp_client import connection
from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.connection import Connection
from tools_app.mcp_client.errors import CallStopped, InputNeeded

ASKING = ("-m", "tests.fakes.mcp.inquirer")
pytestmark = pytest.mark.one_database


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "Client", partial(Client, mode="legacy"))


async def _ignore(progress: float, total: float | None, message: str | None) -> None:
    return


def greet(connection: Connection, name: str, meeting: asyncio.Barrier | None = None) -> Any:
    """Call `greet`, and answer with the name once all calls that meet have been asked."""

    async def answer(request: Mapping[str, Any]) -> dict[str, Any] | None:
        if meeting:
            await meeting.wait()
        return {"action": "accept", "content": {"name": name}}

    return connection.call("greet", {}, seconds=20, on_progress=_ignore, answer=answer)


async def both(config: ServerConfig, *, meet: bool) -> list[Any]:
    opened = Connection(config)
    await opened.open()
    try:
        meeting = asyncio.Barrier(2) if meet else None
        return await asyncio.gather(*(greet(opened, name, meeting) for name in ("Ada", "Bob")))
    finally:
        await opened.aclose()


def test_over_http_two_calls_at_once_are_answered_by_their_own_people(loop: LoopThread, older: None) -> None:
    with process_of(*ASKING, transport="") as (url, _):
        results = loop.run(both(ServerConfig("asking", "streamable_http", url=f"{url}/mcp"), meet=True))
    assert [result["result"] for result in results] == ["Hello, Ada!", "Hello, Bob!"]


def test_over_stdio_nobody_is_asked_for_one_of_two_calls(loop: LoopThread, older: None, tmp_path: Path) -> None:
    config = ServerConfig("asking", "stdio", sys.executable, ASKING, GOOD_ENVIRONMENT, tmp_path)
    results = loop.run(both(config, meet=False))
    said = [result["result"] for result in results]
    assert "No name: cancel" in said and not {"Hello, Ada!", "Hello, Bob!"} <= {*said}


def test_a_refused_request_ends_the_call(loop: LoopThread, older: None, tmp_path: Path) -> None:
    async def refused() -> None:
        opened = Connection(ServerConfig("asking", "stdio", sys.executable, ASKING, GOOD_ENVIRONMENT, tmp_path))
        await opened.open()
        try:
            with pytest.raises(CallStopped):
                await opened.call("greet", {}, seconds=20, on_progress=_ignore, answer=_refuse)
            assert not opened.is_busy and (await greet(opened, "Ada"))["result"] == "Hello, Ada!"
        finally:
            await opened.aclose()

    loop.run(refused())


def test_a_server_of_the_newer_revision_ends_the_call_to_ask(loop: LoopThread) -> None:
    async def asked(url: str) -> InputNeeded:
        opened = Connection(ServerConfig("asking", "streamable_http", url=f"{url}/mcp"))
        await opened.open()
        try:
            with pytest.raises(InputNeeded) as needed:
                await greet(opened, "Ada")
            return needed.value
        finally:
            await opened.aclose()

    with process_of(*ASKING, transport="") as (url, _):
        needed = loop.run(asked(url))
    assert needed.requests["who"]["params"]["message"] == "What is your name?" and needed.state


async def _refuse(request: Mapping[str, Any]) -> None:
    return None
