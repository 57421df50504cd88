"""The two ways to start a process: execute a command, or have the fork server fork a worker (`komand.fork_server`)."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

_PARENT_DEATH = Path(__file__).with_name("parent_death.py")
_LINE_BYTES = 1 << 20
# A fork server that takes longer hangs.
_FORK_SECONDS = 3.0
_PID_BYTES = 32


@dataclass(frozen=True)
class Started:
    """A child process. ending: its exit code, once it has ended; negative for a signal."""

    pid: int
    output: asyncio.StreamReader
    ending: Awaitable[int]


async def execute(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    pass_fds: Sequence[int] = (),
    death_signal: int = signal.SIGKILL,
) -> Started:
    """Start a process that runs the command. Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_PARENT_DEATH),
        str(os.getpid()),
        str(int(death_signal)),
        *command,
        env=dict(environment),
        pass_fds=pass_fds,
        start_new_session=True,
        limit=_LINE_BYTES,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return Started(process.pid, cast(asyncio.StreamReader, process.stdout), process.wait())


async def fork(path: Path, command: Sequence[str]) -> Started | None:
    """Have the fork server start a worker. Returns None if none answers in time; then nothing that lasts was started.

    path: the socket of the fork server.
    command: the command line of the worker.
    """
    read, write = os.pipe()
    source = os.fdopen(read, "rb", 0)
    with os.fdopen(write, "wb", 0) as output:
        try:
            pid = await _request(path, command, output.fileno())
        except BaseException as error:
            source.close()
            if isinstance(error, OSError | ValueError):  # a TimeoutError is an OSError
                return None
            raise
    stream = asyncio.StreamReader(_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), source)
    return Started(pid, stream, _ending_of(pid))


async def _request(path: Path, command: Sequence[str], output: int) -> int:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as link:
        link.setblocking(False)
        async with asyncio.timeout(_FORK_SECONDS):
            await loop.sock_connect(link, str(path))
            socket.send_fds(link, [json.dumps(command).encode()], [output])
            pid = int(await loop.sock_recv(link, _PID_BYTES))
        link.send(b"\n")  # without it, the process ends
    return pid


def _ending_of(pid: int) -> "asyncio.Future[int]":
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[int] = loop.create_future()

    def note(code: int) -> None:
        if not ending.done():
            ending.set_result(code)

    def wait() -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(note, code)

    threading.Thread(target=wait, name=f"wait-{pid}", daemon=True).start()
    return ending
