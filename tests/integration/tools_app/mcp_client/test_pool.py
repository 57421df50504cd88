"""The pool of connections to MCP servers: which it closes, pings and lists again."""

from pathlib import Path
from uuid import UUID

import pytest

from tests.support.engine import until
from tests.support.mcp import LoopThread, bad
from tools_app.mcp_client import pool as pools
from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.connection import Connection
from tools_app.mcp_client.errors import ServerFault
from tools_app.mcp_client.pool import Pool

pytestmark = pytest.mark.one_database

SERVER = UUID(int=1)


class Caller:
    """A pool on a thread of its own, with one server. reports: what it reported, None for a listing."""

    def __init__(self, config: ServerConfig) -> None:
        self.loop = LoopThread()
        self.config = config
        self.reports: list[str | None] = []
        self.pool = Pool(self._load, self._report)

    async def _load(self, server_id: UUID) -> ServerConfig:
        return self.config

    async def _report(self, server_id: UUID, connection: Connection, fault: ServerFault | None) -> None:
        self.reports.append(None if fault is None else str(fault))

    def connection(self) -> Connection:
        found: Connection = self.loop.run(self.pool.connection(SERVER, 1))
        return found

    def look_after(self) -> None:
        self.loop.run(self.pool.look_after({SERVER: 1}))

    def close(self) -> None:
        self.loop.run(self.pool.aclose())
        self.loop.close()


async def _ignore(progress: float, total: float | None, message: str | None) -> None:
    """Ignore the progress of a call."""


@pytest.mark.parametrize("limit", ["_IDLE_SECONDS", "_PING_SECONDS"])
def test_a_server_is_neither_closed_nor_pinged_during_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(pools, limit, 0.0)
    monkeypatch.setattr("tools_app.mcp_client.connection._CHECK_SECONDS", 0.2)
    caller = Caller(bad(tmp_path, "hang-call"))
    connection = caller.connection()
    call = caller.loop.start(connection.call("act", {}, seconds=60, on_progress=_ignore))
    until(lambda: connection.is_busy)
    caller.look_after()
    assert connection.is_open and not call.done(), "it serves one request at a time, so it answers no ping"
    call.cancel()
    until(lambda: not connection.is_busy)
    caller.look_after()
    assert not connection.is_open
    caller.close()


def test_a_changed_list_that_could_not_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_RELIST_SECONDS", -1.0)
    caller = Caller(bad(tmp_path, "fine"))
    connection = caller.connection()
    read, faults = connection.list_tools, [ServerFault("it did not list its tools")]

    async def list_tools() -> None:
        if faults:
            raise faults.pop()
        await read()

    monkeypatch.setattr(connection, "list_tools", list_tools)
    connection._on_list_changed()
    caller.look_after()
    caller.look_after()
    caller.look_after()
    assert caller.reports == [None, "it did not list its tools", None]
    caller.close()
