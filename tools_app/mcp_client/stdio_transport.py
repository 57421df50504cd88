"""The stdio transport: a server as a child process, with a minimal environment, its own folder and a guaranteed end.

Unlike the SDK's transport, it limits the size of messages and the rate of bytes, keeps the last log lines for errors,
rate-limits the log, and always kills the whole process group.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from tools_app.mcp_client.config import MAX_MESSAGE_BYTES, ServerConfig
from tools_app.mcp_client.errors import ServerFault
from tools_app.mcp_client.token_bucket import Bucket

logger = logging.getLogger(__name__)

P = TypeVar("P", asyncio.StreamReader, asyncio.StreamWriter)

_LAUNCHER = Path(__file__).with_name("launcher.py")
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_LEAVE_SECONDS = 1.0  # to exit after its input is closed
_KILL_SECONDS = 1.0  # after SIGTERM
_BYTES_AT_ONCE, _BYTES_PER_SECOND = 64 * 1024 * 1024, 4 * 1024 * 1024
_LOG_LINES_AT_ONCE, _LOG_LINES_PER_SECOND = 50, 2
_LOG_LINE_CHARACTERS = 500
_KEPT_LOG_LINES = 5


class StdioServer:
    """One run of a server's process. `streams` is the transport for the SDK."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._log_lines: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
        self.fault: ServerFault | None = None  # why reading stopped

    @property
    def last_log_lines(self) -> str:
        return " | ".join(self._log_lines)

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """Start the process and yield its message streams; at the end of the block, kill its process group."""
        process = await self._start()
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        work = [
            asyncio.create_task(self._read(_pipe(process.stdout), incoming)),
            asyncio.create_task(self._write(_pipe(process.stdin), outgoing, incoming)),
            asyncio.create_task(self._log(_pipe(process.stderr))),
        ]
        try:
            yield read, write
        finally:
            for task in work[:2]:
                task.cancel()
            await asyncio.shield(asyncio.ensure_future(self._end(process)))
            work[2].cancel()
            await asyncio.wait(work)
            for stream in (incoming, read, write, outgoing):
                stream.close()

    async def _start(self) -> asyncio.subprocess.Process:
        config = self._config
        config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        home = {"HOME": str(config.folder), "TMPDIR": str(config.folder)}
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(_LAUNCHER),
                str(os.getpid()),
                config.command,
                *config.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**inherited, **home, **config.environment},
                cwd=config.folder,
                start_new_session=True,
                limit=MAX_MESSAGE_BYTES,
            )
        except (OSError, ValueError) as error:
            raise ServerFault(f"its command cannot be started: {error}") from error

    async def _read(self, stdout: asyncio.StreamReader, incoming: Any) -> None:
        """Forward one message per line. A flood stops reading, which ends the connection."""
        bucket = Bucket(_BYTES_AT_ONCE, _BYTES_PER_SECOND)
        try:
            while True:
                line = await stdout.readuntil(b"\n")
                if not bucket.take(len(line)):
                    self.fault = ServerFault("it sent more data than is allowed")
                    return
                await incoming.send(_message(line))
        except asyncio.LimitOverrunError:
            self.fault = ServerFault(f"it sent a message of more than {MAX_MESSAGE_BYTES // 1024} KB")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.fault = self.fault or ServerFault("its process ended")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        finally:
            incoming.close()

    async def _write(self, stdin: asyncio.StreamWriter, outgoing: Any, incoming: Any) -> None:
        try:
            async for item in outgoing:
                stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
        except (ConnectionError, RuntimeError):
            incoming.close()  # ends the session

    async def _log(self, stderr: asyncio.StreamReader) -> None:
        bucket = Bucket(_LOG_LINES_AT_ONCE, _LOG_LINES_PER_SECOND)
        rest = b""
        while chunk := await stderr.read(4096):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-4096:]
            for line in lines:
                text = line.decode(errors="replace")[:_LOG_LINE_CHARACTERS].strip()
                if text:
                    self._log_lines.append(text)
                    if bucket.take(1):
                        logger.info("MCP server %s logged: %r", self._config.name, text)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin and process.returncode is None:
            process.stdin.close()
            if not await _gone(process, _LEAVE_SECONDS):
                _signal_group(process.pid, signal.SIGTERM)
                await _gone(process, _KILL_SECONDS)
        # Also its own children: the group keeps the id of its first process as long as it has members.
        _signal_group(process.pid, signal.SIGKILL)
        await _gone(process, _KILL_SECONDS)
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()  # a process that left the group may still hold a pipe


def _pipe(pipe: P | None) -> P:
    if pipe is None:
        raise RuntimeError("the process was started without its pipes")
    return pipe


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether it ends in that time. `process.wait()` would also wait for pipes that its children hold."""
    for _ in range(int(seconds / 0.02)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(0.02)
    return process.returncode is not None


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
