"""The lines of a first start are those that the README shows."""

import asyncio
import io
import json
import re
import socket
import sys
from pathlib import Path

import pytest

from komand.supervisor import process_specs
from komand.supervisor.console import Screen
from komand.supervisor.options import parse_up
from komand.supervisor.processes import Child, State
from komand.supervisor.supervisor import Supervisor
from tests.support.live_server import ROOT

_PREPARED = {
    "migrations_applied": 33,
    "login": {"username": "admin", "email": "admin@localhost", "password": "xxxxx-xxxxx-xxxxx-xxxxx"},
    "login_link": "/login/link/1:1wK…",
    "provider": {"name": "demo", "kind": "demo", "model": "demo", "base_url": ""},
}

_PARTS = [{"part": "database", "seconds": 2.9, "note": "33 applied"}, {"part": "seed", "seconds": 0.5, "note": ""}]


async def _prepare(environment: dict[str, str], **options: bool) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    lines = "\n".join(map(json.dumps, [*_PARTS, _PREPARED]))
    command = (sys.executable, "-S", "-c", f"print({lines!r})")
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def _settled(child: Child) -> State:
    return State.IDLE if child.spec.on_demand and not child.is_demanded else State.READY


async def _first_start(folder: Path) -> str:
    """Return what is printed. Its processes are not started: each counts as ready, or as not needed yet."""
    shown = io.StringIO()
    screen = Screen(shown)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = parse_up(["--data-dir", str(folder), "--port", "0"])
        await Supervisor(options, listener, screen)._start()
    screen.close()
    return shown.getvalue()


def _without_figures(text: str) -> list[str]:
    return [re.sub(r" *\d[\d.]*", " N", line) for line in text.splitlines() if line]


def _ticks(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if "✓" in line)  # processes become ready in any order


async def test_the_readme_shows_the_lines_of_a_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "KOMAND_PUBLIC_URL", "KOMAND_RUN_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process_specs, "run_prepare", _prepare)
    monkeypatch.setattr(Child, "start", lambda child: None)
    monkeypatch.setattr(Child, "settled", _settled)
    printed = _without_figures(await _first_start(tmp_path))
    [block] = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    documented = _without_figures(block)
    assert {*documented} <= {*printed}
    assert _ticks(documented) == _ticks(printed) != []
