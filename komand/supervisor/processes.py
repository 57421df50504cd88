"""A supervised process: start, watchdog, restart with back-off, and termination of its whole group."""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from komand.supervisor import process_start, process_times
from komand.supervisor.console import Screen

_FIRST_SECONDS, _LONGEST_SECONDS, _HEALTHY_SECONDS = 0.2, 5.0, 10.0
_QUICK_DEATHS = 3
# A process whose watchdog messages stop for so long is stopped or hangs: it is killed and restarted. The time in which
# it waits for a processor does not count, up to a limit.
SILENT_SECONDS = 5.0
_STARVED_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.05
_HELD_LINES = 20
_ENDED_WELL = "ended with code 0"


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    IDLE = "idle"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Spec:
    """A process to run.

    is_ready: called until it returns True.
    shows_life: called each second, for a process that sends no watchdog messages.
    adopt: returns the process id of a process that runs already, if any.
    mend: called with the last lines if the process ends before it is ready; returns a message about what it mended.
    quiet: its lines are shown only if it ends by itself.
    on_demand: it runs only after `Child.demand`, until it ends by itself with code 0.
    fork_server: socket of the fork server, for a worker; the command is executed if that does not answer.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    is_ready: Callable[["Child"], Awaitable[bool]]
    shows_life: Callable[[], Awaitable[bool]] | None = None
    adopt: Callable[[], Awaitable[int | None]] | None = None
    mend: Callable[[Iterable[str]], str] | None = None
    pass_fds: Sequence[int] = ()
    death_signal: int = signal.SIGKILL
    quiet: bool = False
    on_demand: bool = False
    fork_server: Path | None = None


@dataclass
class Backoff:
    """The pause before the next start: 0.2 s, doubling up to 5 s, reset after 10 healthy seconds."""

    next_seconds: float = _FIRST_SECONDS

    def after(self, healthy_seconds: float) -> float:
        if healthy_seconds >= _HEALTHY_SECONDS:
            self.next_seconds = _FIRST_SECONDS
        delay, self.next_seconds = self.next_seconds, min(self.next_seconds * 2, _LONGEST_SECONDS)
        return delay


@dataclass(eq=False)
class Child:
    spec: Spec
    screen: Screen
    on_change: Callable[[], None]
    state: State = State.STOPPED
    pid: int | None = None
    restarts: int = 0
    since: float = field(default_factory=time.time)
    is_reported_ready: bool = False
    beat_at: float | None = None  # monotonic; None until it first shows life
    _held_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_HELD_LINES))
    _stopping: bool = False
    _demanded: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self.spec.name)

    def demand(self) -> None:
        """Start the process if it is idle."""
        self._demanded.set()

    @property
    def is_demanded(self) -> bool:
        return self._demanded.is_set()

    async def settled(self) -> State:
        """Wait until the process is ready for the first time, is not needed, or has failed permanently."""
        await self._settled.wait()
        return self.state

    async def stop(self, seconds: float, number: int = signal.SIGTERM) -> None:
        """Send the signal, and SIGKILL to the whole group if the process takes longer."""
        self._stopping = True
        if self._task is None:
            return
        if self.pid is not None and self.state is State.READY:  # before that it holds nothing that could be lost
            self._signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._gone.wait()
        self.kill()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._set(State.STOPPED, None)

    def kill(self) -> None:
        """Kill the process with its children."""
        if self.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid or 0, number)

    def _set(self, state: State, pid: int | None) -> None:
        if state is not self.state:
            self.since = time.time()
        self.state, self.pid = state, pid
        if state in (State.READY, State.IDLE, State.FAILED):
            self._settled.set()
        self.on_change()

    async def _keep(self) -> None:
        backoff = Backoff()
        while not self._stopping:
            if self.spec.on_demand and not self.is_demanded:
                self._set(State.IDLE, None)
                await self._demanded.wait()
            started = time.monotonic()
            ending = await self._run_once()
            lasted = time.monotonic() - started
            if self._stopping:
                return
            if self.spec.on_demand and ending == _ENDED_WELL:
                self._demanded.clear()
                continue
            mended = self.spec.mend(self._held_lines) if self.spec.mend and self.state is State.STARTING else ""
            if not self._settled.is_set() and self.restarts + 1 >= _QUICK_DEATHS:
                self._show_held()
                self._set(State.FAILED, None)
                return
            delay = backoff.after(lasted)
            self._show_held()
            for line in filter(None, (mended, f"{ending} after {lasted:.1f} s; restarting in {delay:.1f} s")):
                self.screen.line(self.spec.name, line)
            self.restarts += 1
            self._set(State.RESTARTING, None)
            await asyncio.sleep(delay)

    async def _run_once(self) -> str:
        """Run the process once. Returns how it ended, or why it could not be started."""
        self.is_reported_ready, self.beat_at = False, None
        self._gone.clear()
        adopted = await self.spec.adopt() if self.spec.adopt and not self.restarts else None
        if adopted is not None:
            self.screen.line(self.spec.name, f"process {adopted} of an earlier start still runs and is adopted")
            return await self._watch(adopted, self._until_gone(adopted))
        try:
            process = await self._begin()
        except OSError as error:  # out of memory or processes, or this Python was removed
            return f"could not be started ({error.strerror})"
        reading = asyncio.create_task(self._read(process.output))
        code = await self._watch(process.pid, process.ending)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await reading
        return code

    async def _begin(self) -> process_start.Started:
        spec = self.spec
        forked = await process_start.fork(spec.fork_server, spec.command) if spec.fork_server else None
        return forked or await process_start.execute(
            spec.command, spec.environment, pass_fds=spec.pass_fds, death_signal=spec.death_signal
        )

    async def _watch(self, pid: int, ending: Awaitable[int]) -> str:
        self._set(State.STARTING, pid)
        watching = [
            asyncio.create_task(task)
            for task in (self._get_ready(pid), self._kill_when_silent(pid), self._ask_for_life())
        ]
        try:
            code = await ending
        finally:
            for task in watching:
                task.cancel()
        self._gone.set()
        self.kill()  # its orphaned children
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    async def _get_ready(self, pid: int) -> None:
        while not await self.spec.is_ready(self):
            await asyncio.sleep(_POLL_SECONDS)
        self._set(State.READY, pid)

    async def _ask_for_life(self) -> None:
        while self.spec.shows_life:
            if await self.spec.shows_life():
                self.beat_at = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _kill_when_silent(self, pid: int) -> None:
        looked_at, waited, beat_at = time.monotonic(), process_times.waited_seconds(pid), self.beat_at
        starved = 0.0  # seconds since the last message
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now, before, waited = time.monotonic(), waited, process_times.waited_seconds(pid)
            if self.beat_at is not None and now - looked_at > 2 * _LOOK_SECONDS:
                self.beat_at = now  # this process was stopped and received nothing
            starved = 0.0 if self.beat_at != beat_at else min(starved + waited - before, _STARVED_SECONDS)
            looked_at, beat_at = now, self.beat_at
            if self.beat_at is not None and now - self.beat_at > SILENT_SECONDS + starved:
                self.screen.line(self.spec.name, f"sent no watchdog message for {SILENT_SECONDS:.0f} s and is killed")
                self.kill()
                return

    async def _until_gone(self, pid: int) -> int:
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                await asyncio.sleep(_POLL_SECONDS * 4)
        return 0

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # a line longer than the limit: it was thrown away
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            if self.spec.quiet:
                self._held_lines.append(text)
            elif text:
                self.screen.line(self.spec.name, text)

    def _show_held(self) -> None:
        while self._held_lines:
            self.screen.line(self.spec.name, self._held_lines.popleft())
