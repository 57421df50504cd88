"""Frames between a runs worker and the process `sockets` that are malformed, too long, or cross each other."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sessions_app.channels.connections import wire
from sessions_app.channels.connections.receiver import Receiver
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from tests.support.conditions import happens

MALFORMED = [b"{token", b"\xff", b"[]", b"{}", b'{"kind": "open", "number": "1"}', b'{"kind": 1, "number": 1}']


async def with_receiver(path: Path, act: Callable[[wire.Wire, asyncio.StreamWriter], Awaitable[None]]) -> None:
    receiving = asyncio.create_task(Receiver().run(path))
    await happens(path.exists)
    reader, writer = await asyncio.open_unix_connection(path)
    async with asyncio.timeout(60):
        await act(wire.Wire(reader, writer), writer)
    writer.close()
    await writer.wait_closed()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)


@pytest.mark.parametrize("data", MALFORMED)
def test_a_malformed_frame_closes_the_socket(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def act(to_process: wire.Wire, writer: asyncio.StreamWriter) -> None:
        writer.write(len(data).to_bytes(4, "big") + data)
        assert [frame async for frame in to_process.frames()] == []

    asyncio.run(with_receiver(tmp_path / "s", act))
    assert [record.name for record in caplog.records] == [wire.__name__]
    assert "token" not in caplog.text


def test_a_frame_that_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wire, "_MOST_BYTES", 100)

    async def act(to_process: wire.Wire, writer: asyncio.StreamWriter) -> None:
        with pytest.raises(ValueError, match="longer than 100"):
            to_process.send("stored", 1, text="x" * 100)

    asyncio.run(with_receiver(tmp_path / "s", act))


def test_a_connection_that_is_closed_before_it_starts_reports_its_end(tmp_path: Path) -> None:
    account = wire.dump_account(AccountSettings("a", {}, {}))
    opened = {"kind": "open", "number": 1, "adapter": wire.name_adapter(Telegram), "account": account, "cursor": ""}

    async def act(to_process: wire.Wire, writer: asyncio.StreamWriter) -> None:
        frames = [json.dumps(frame).encode() for frame in (opened, {"kind": "close", "number": 1})]
        writer.write(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        frame = await anext(to_process.frames())
        assert (frame["kind"], frame["number"]) == ("ended", 1)

    asyncio.run(with_receiver(tmp_path / "s", act))
