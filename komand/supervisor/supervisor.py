"""The supervisor: starts Valkey and `prepare` together, then web and workers, and keeps them running."""

import asyncio
import json
import os
import shlex
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, cast

from komand.settings import env
from komand.supervisor import embedded, orphans, probes, process_specs, state, welcome
from komand.supervisor.console import Screen
from komand.supervisor.options import Options
from komand.supervisor.processes import SILENT_SECONDS, Child, Spec, State

_START_SECONDS = 60.0
_VALKEY_STOP_SECONDS = 0.7
# The drain of a worker that is told to hurry takes three seconds.
_HURRIED_SECONDS = 4.0
# The time beyond KOMAND_DRAIN_SECONDS after which a draining process is killed.
_DRAIN_MARGIN_SECONDS = 3.0


class StartFailed(Exception):
    """A part did not start; the message names it."""


class Supervisor:
    """One installation. `run` returns the exit code of `manage.py up`."""

    def __init__(self, options: Options, listener: socket.socket, screen: Screen) -> None:
        self._options = options
        self._listener = listener
        self._port: int = listener.getsockname()[1]
        self._screen = screen
        self._children: list[Child] = []
        self._passing: set[Child] = set()  # in a rolling restart: a successor that starts, a predecessor that ends
        self._rolling: asyncio.Task[None] | None = None
        self._rolls, self._roll_failure = 0, ""
        self._socket = embedded.choose_socket(options.data_dir)
        self._notify = self._socket.with_name("ready.sock")
        self._forks = self._socket.with_name("fork.sock") if sys.platform == "linux" else None
        self._preparing: int | None = None
        self._environment = {
            **options.child_environment(),
            "KOMAND_PORT": str(self._port),
            "KOMAND_SUPERVISOR_PID": str(os.getpid()),
            "KOMAND_SOCKETS": str(self._socket.with_name("sockets.sock")),
            "NOTIFY_SOCKET": str(self._notify),
            "WATCHDOG_USEC": str(int(SILENT_SECONDS * 1_000_000)),
        }
        self._started_at = time.time()
        self._is_up = False
        self._stop = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        # nohup starts it with SIGHUP ignored, because it is to outlive the terminal.
        stops_at_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if stops_at_hangup else [])):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGUSR1, self._on_roll)
        self._note()  # instead of what one that was killed has left there
        messages = await probes.LifeMessages.listen(self._notify, self._on_ready, self._on_beat, self._on_demand)
        try:
            with orphans.adopted(self._own_pids):
                return await self._until_stopped()
        finally:
            await self._end()
            messages.close()
            for name in (self._notify.name, "sockets.sock", "fork.sock"):
                self._socket.with_name(name).unlink(missing_ok=True)
            embedded.forget_socket(self._options.data_dir, self._socket)
            state.remove(self._options.data_dir)

    async def _until_stopped(self) -> int:
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
            return 0
        except StartFailed as failure:
            self._screen.fail(str(failure))
            return 1
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    async def _start(self) -> None:
        begun = time.monotonic()
        _, prepared = await asyncio.gather(self._start_valkey(), self._prepare())
        try:
            descriptor = self._listener.fileno()
            # The connections that it accepts inherit this: once closed, they do not keep the next start from the port.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            specs = [
                process_specs.web(self._options, descriptor, self._port, self._environment),
                *([process_specs.fork_server(self._environment, self._forks)] if self._forks else []),
                *process_specs.workers(self._options, self._environment, self._forks),
                process_specs.sockets(self._environment),
            ]
            await asyncio.gather(*(self._start_child(spec) for spec in specs))
        except (StartFailed, asyncio.CancelledError):
            if prepared["login"]:  # a new password is shown this once, whatever else fails, also by Ctrl-C
                self._screen.print(welcome.login_line(prepared))
            raise
        self._is_up = True
        self._note()
        seconds = time.monotonic() - begun
        for line in welcome.block(self._options, self._port, prepared, seconds, self._screen):
            self._screen.print(line)
        if self._screen.is_terminal:
            welcome.open_browser(self._options.url(self._port), prepared)

    async def _start_valkey(self) -> None:
        binary = embedded.find_binary()
        if env.is_embedded() and binary:
            await self._start_child(process_specs.valkey(self._options, binary, self._socket))

    async def _start_child(self, spec: Spec) -> None:
        child = Child(spec, self._screen, self._note)
        self._children.append(child)
        if spec.name == process_specs.FORK_SERVER:
            child.demand()
        if spec.fork_server:
            for other in [other for other in self._children if other.spec.name == process_specs.FORK_SERVER]:
                await other.settled()
        await self._bring_up(child)

    async def _bring_up(self, child: Child) -> None:
        """Start everything. Returns when it runs; raises StartFailed if a part does not."""
        begun, spec = time.monotonic(), child.spec
        child.start()
        try:
            async with asyncio.timeout(_START_SECONDS):
                reached = await child.settled()
        except TimeoutError:
            raise StartFailed(f"{spec.name} was not ready within {_START_SECONDS:.0f} s; see its lines above") from None
        if reached is State.IDLE:
            return
        if reached is not State.READY:
            raise StartFailed(f"{spec.name} keeps ending; see its lines above ({shlex.join(spec.command)})")
        self._screen.tick(spec.name, time.monotonic() - begun)

    async def _roll(self) -> None:
        """Migrate, then replace web and workers one after the other, each by a process that is ready."""
        self._screen.print("\nreplacing every process by a new one …")
        problem = ""
        try:
            await self._prepare()
            for child in [child for child in self._children if child.spec.name != "valkey"]:
                await self._replace(child)
        except Exception as failure:  # whatever it is: `restart` waits for the result
            problem = str(failure) if isinstance(failure, StartFailed) else repr(failure)
            self._screen.fail(f"{problem}; the remaining processes keep running")
        self._end_roll(problem)

    def _end_roll(self, problem: str) -> None:
        self._rolls, self._roll_failure = self._rolls + 1, problem
        self._note()

    async def _replace(self, child: Child) -> None:
        successor = Child(child.spec, self._screen, self._note)
        if child.is_demanded:
            successor.demand()
        self._passing.add(successor)
        try:
            await self._bring_up(successor)
        except BaseException:
            await successor.stop(_HURRIED_SECONDS, signal.SIGINT)
            self._passing.discard(successor)
            raise
        self._children[self._children.index(child)] = successor
        self._passing ^= {successor, child}
        await child.stop(env.integer("KOMAND_DRAIN_SECONDS", 25) + _DRAIN_MARGIN_SECONDS)
        self._passing.discard(child)

    async def _prepare(self) -> dict[str, Any]:
        process = await process_specs.run_prepare(self._environment, makes_link=self._screen.is_terminal)
        self._preparing = process.pid
        prepared: dict[str, Any]
        try:
            output, problems = cast(asyncio.StreamReader, process.stdout), cast(asyncio.StreamReader, process.stderr)
            prepared, errors = await asyncio.gather(self._follow_parts(output), problems.read())
            await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        for line in errors.decode(errors="replace").splitlines():
            self._screen.line("prepare", line)
        if process.returncode:
            raise StartFailed("the database could not be prepared; see the lines above")
        return prepared

    async def _follow_parts(self, output: asyncio.StreamReader) -> dict[str, Any]:
        """Print a line about each part of `prepare` that is done. Return its last line, the result."""
        last: dict[str, Any] = {}
        while line := await output.readline():
            last.clear()
            last.update(json.loads(line))
            if part := last.get("part"):
                self._screen.tick(part, last["seconds"], last["note"])
        return last

    async def _end(self) -> None:
        """Stop web and workers together, and Valkey after them, because they use it while they stop."""
        begun = time.monotonic()
        if self._rolling:
            self._rolling.cancel()
            await asyncio.gather(self._rolling, return_exceptions=True)
        everyone = {*self._children, *self._passing}
        first = [child for child in everyone if child.spec.name != "valkey"]
        last = [child for child in everyone if child.spec.name == "valkey"]
        # SIGINT: workers hurry, as for Ctrl-C.
        await asyncio.gather(*(child.stop(_HURRIED_SECONDS, signal.SIGINT) for child in first))
        await asyncio.gather(*(child.stop(_VALKEY_STOP_SECONDS) for child in last))
        if self._stop.is_set():
            self._screen.print(f"stopped in {time.monotonic() - begun:.1f} s")

    def _on_signal(self) -> None:
        if self._stop.is_set():  # a second Ctrl-C: do not wait any longer
            for child in (*self._children, *self._passing):
                child.kill()
        else:
            self._screen.print("\nstopping …")
            self._stop.set()

    def _on_roll(self) -> None:
        if not self._is_up:
            self._end_roll("it is still starting")
        elif not self._stop.is_set() and (self._rolling is None or self._rolling.done()):
            self._rolling = asyncio.create_task(self._roll())

    def _on_ready(self, pid: int) -> None:
        for child in (*self._children, *self._passing):
            if child.pid == pid:
                child.is_reported_ready = True

    def _on_beat(self, pid: int) -> None:
        for child in (*self._children, *self._passing):
            if child.pid == pid:
                # A watchdog message implies readiness; the READY message may have been lost while we were stopped.
                child.is_reported_ready, child.beat_at = True, time.monotonic()

    def _on_demand(self, pid: int) -> None:
        for child in (*self._children, *self._passing):
            if child.spec.name == "sockets":
                child.demand()

    def _own_pids(self) -> set[int]:
        pids = (self._preparing, *(child.pid for child in (*self._children, *self._passing)))
        return {pid for pid in pids if pid is not None}

    def _note(self) -> None:
        processes = tuple(
            state.ProcessNote(child.spec.name, child.pid, child.state.value, child.restarts, child.since)
            for child in self._children
        )
        note = state.Note(
            os.getpid(),
            self._options.url(self._port),
            self._options.host,
            self._port,
            str(self._socket) if env.is_embedded() else "",
            self._started_at,
            processes,
            self._rolls,
            self._roll_failure,
            self._is_up,
        )
        try:
            state.write(self._options.data_dir, note)
        except OSError as error:  # such as a full disk: keep the processes running
            self._screen.fail(f"`status` is out of date, its state file cannot be written: {error.strerror}")
