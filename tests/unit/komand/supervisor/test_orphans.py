"""Descendants whose parents have ended."""

import asyncio
import os
import signal
import subprocess
import sys

import psutil
import pytest

from komand.supervisor import orphans
from tests.support.conditions import happens


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
async def test_orphans_that_end_are_removed_and_own_children_are_left_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orphans, "_PAUSE_SECONDS", 0.01)
    own: set[int] = set()
    with orphans.adopted(lambda: own):
        child = subprocess.Popen(["/bin/sleep", "60"])
        own.add(child.pid)
        parent = subprocess.run(["/bin/sh", "-c", "sleep 60 >&- & echo $!"], stdout=subprocess.PIPE, check=True)
        orphan = int(parent.stdout)
        await happens(lambda: psutil.Process(orphan).ppid() == os.getpid())
        os.kill(orphan, signal.SIGKILL)
        await happens(lambda: not psutil.pid_exists(orphan))
        child.kill()
        await asyncio.sleep(0.1)  # several times the pause
    assert child.wait() == -signal.SIGKILL
