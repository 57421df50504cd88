"""The background work of the web process."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents_app.runs import reaper
from audit_app.kernel import liveness
from komand import background


async def test_a_process_without_a_heartbeat_at_first_works_later(monkeypatch: pytest.MonkeyPatch) -> None:
    tries, reaps = 0, asyncio.Event()

    def start(name: str) -> UUID:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return uuid4()

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    async def loop() -> None:
        reaps.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(background, "in_db", at_once)
    monkeypatch.setattr(background, "_tasks", set())  # other tests leave tasks of a closed loop
    monkeypatch.setattr(background, "_RESTART_SECONDS", 0)
    monkeypatch.setattr(liveness, "start", start)
    monkeypatch.setattr(reaper, "loop", loop)
    background.ensure_started()
    try:
        async with asyncio.timeout(60):
            await reaps.wait()
    finally:
        await background.stop()
    assert tries == 2
