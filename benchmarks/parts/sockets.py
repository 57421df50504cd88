"""The memory of the process `sockets` with ten idle connections, to as many fake platforms."""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks.figures import Figure
from benchmarks.processes import Gateway, NotStarted
from benchmarks.scale import Scale
from tests.fakes.telegram import TOKEN, FakeTelegram

PART = "sockets"

_CONNECTIONS = 10
_START_SECONDS = 60.0
_MB = 1e6


def measure(folder: Path, model_url: str, scale: Scale) -> list[Figure]:
    """Measure once every connection waits for the answer to its first long request."""
    gateway = Gateway(folder / "sockets", model_url)
    gateway.prepare()
    with ExitStack() as stack:
        platforms = [stack.enter_context(FakeTelegram()) for _ in range(_CONNECTIONS)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each is a process
            list(
                pool.map(
                    lambda number: _add(gateway, folder, f"bot{number}", platforms[number].url), range(_CONNECTIONS)
                )
            )
        begun = time.monotonic()
        stack.enter_context(gateway)
        while not all(len(platform.polls) > 1 for platform in platforms):
            if time.monotonic() - begun > _START_SECONDS:
                raise NotStarted("the process sockets did not open its connections")
            time.sleep(0.1)
        opened = time.monotonic() - begun
        time.sleep(scale.settle_seconds)
        [pid] = [part.pid for part in gateway.parts() if part.name == "sockets"]
        memory = psutil.Process(pid).memory_full_info()
    return [
        Figure(PART, f"RSS with {_CONNECTIONS} idle connections", memory.rss / _MB, "MB", target=60),
        Figure(PART, "USS of the same (pages that no other process shares)", memory.uss / _MB, "MB"),
        Figure(PART, "start of the installation until all are open", opened, "s"),
    ]


def _add(gateway: Gateway, folder: Path, name: str, url: str) -> None:
    files = {"secrets": {"bot_token": TOKEN}, "config": {"api_url": url, "receive": "polling"}}
    options = []
    for option, content in files.items():
        path = folder / f"{name}-{option}.json"
        path.write_text(json.dumps(content))
        options += [f"--{option}", str(path)]
    try:
        gateway.run(["-m", "django", "channel", "add", "telegram", name, *options])
    except subprocess.TimeoutExpired:
        raise NotStarted("an account could not be added") from None
