"""Traces of the paths of a message: the files and functions of the product that one scenario enters.

Each scenario runs on a whole gateway in one process and traces the second of two like messages: the first one also
enters what is cached afterwards. Models, migrations, settings and the loops of background work do not count.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from audit_app.kernel.database import in_db
from sessions_app.approvals.decisions import decide
from sessions_app.channels import accounts
from sessions_app.platforms.adapters.fake import Fake
from sessions_app.platforms.registry import channels
from sessions_app.services import NewMessage, open_session, receive
from tests.architecture.source import PACKAGES, ROOT
from tests.integration.sessions_app.surfaces.chat.chat_tab import Tab, cookie_of
from tests.support.approvals import Launch, asked, wants_to_launch
from tests.support.channels import post, settle
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.registry import tools
from tools_app.types import ToolCall

_FOLDERS = tuple(f"{ROOT / package}/" for package in PACKAGES)
# Connections: which path opens one is chance.
_UNCOUNTED = ("models", "migrations", "settings", "postgresql", "sqlite")
_SHORT = 5
_LAUNCH = ToolCall("launch", "launch_workstream", json.dumps({"id": "a", "instruction": "task a"}))
_REST_SECONDS = 0.3  # for what a path leaves to other threads at its end


@dataclass(frozen=True)
class Trace:
    """functions: entered, with those of at most five lines; lines: theirs; arrows: pairs of files that call."""

    files: frozenset[str]
    functions: int
    short: int
    lines: int
    arrows: int

    def __str__(self) -> str:
        return f"{len(self.files)} · {self.functions} ({self.short}) · {self.lines:,} · {self.arrows}"


class Recorder:
    """Records calls in all threads that start while it is open, and in the caller's during `path`."""

    def __init__(self) -> None:
        self._paths: dict[CodeType, str] = {}
        self._called: set[CodeType] = set()
        self._arrows: set[tuple[str, str]] = set()
        self._is_on = False

    @contextmanager
    def open(self) -> Iterator[None]:
        threading.setprofile(self._see)
        try:
            yield
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]

    def begin(self) -> None:
        self._called, self._arrows = set(), set()
        self._is_on = True
        sys.setprofile(self._see)

    def end(self) -> Trace:
        """Return the trace since `begin`."""
        sys.setprofile(None)
        time.sleep(_REST_SECONDS)
        self._is_on = False
        lengths = [max(line or 0 for *_, line in code.co_lines()) - code.co_firstlineno + 1 for code in self._called]
        files = frozenset(self._paths[code] for code in self._called)
        return Trace(files, len(lengths), sum(n <= _SHORT for n in lengths), sum(lengths), len(self._arrows))

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not self._is_on:
            return
        if not (path := self._path_of(frame.f_code)):
            return
        self._called.add(frame.f_code)
        caller = frame.f_back
        while caller and not self._path_of(caller.f_code):
            caller = caller.f_back
        if caller and (source := self._path_of(caller.f_code)) != path:
            self._arrows.add((source, path))

    def _path_of(self, code: CodeType) -> str:
        """Return the file of the product's code, below the root; empty for other code."""
        path = self._paths.get(code)
        if path is None:
            path = code.co_filename if code.co_filename.startswith(_FOLDERS) else ""
            path = path.removeprefix(f"{ROOT}/")
            counts = not any(part.removesuffix(".py") in _UNCOUNTED for part in path.split("/"))
            path = self._paths[code] = path if counts else ""
        return path


class Scenarios:
    """The scenarios, on one gateway. Each returns the trace of its second message."""

    def __init__(self, rig: EngineRig, recorder: Recorder) -> None:
        self._rig, self._recorder = rig, recorder

    def webhook(self) -> Trace:
        with channels.override(Fake):
            Fake.platforms.clear()
            accounts.add_account("fake", "main", config={}, secrets={"token": "secret"}, access="open", tools=[])
            self._rig.agent(Reply(("fine, ", "thanks"), delay_seconds=0.1))
            return self._second(self._post, lambda number: settle(self._rig, number))

    def _post(self, number: int) -> None:
        body = json.dumps({"id": f"m{number}", "sender": "u", "text": "hello"}).encode()
        headers = {"content-type": "application/json", "x-fake-token": "secret"}
        assert post("/channels/fake/main/webhook", body, headers) == (200, None)

    def answer(self) -> Trace:
        self._rig.agent(Reply(("fine",)))
        return self._second(self._send, self._wait)

    def answer_with_a_tool(self) -> Trace:
        call = Reply(tool_calls=(ToolCall("c1", "echo", '{"text": "x"}'),))
        self._rig.agent(call, Reply(("fine",)), call, Reply(("fine",)))
        return self._second(self._send, self._wait)

    def _send(self, number: int) -> None:
        self._run_id = self._rig.send("hello").run_id

    def _wait(self, number: int) -> None:
        self._rig.wait(self._run_id)

    def approval(self) -> Trace:
        wants_to_launch(self._rig, "Over.", "Over.")
        with tools.override(Launch()):
            for number in (1, 2):
                self._send(number)
                approval = asked(number)
                self._until_parked("approval")
                self._recorder.begin()
                decide(approval.id, decision="allow_once", actor=f"user:{self._rig.owner.pk}", has_fresh_login=True)
                trace = self._ended(lambda: self._wait(0))
        return trace

    def launch(self) -> Trace:
        """Trace a model's call of the tool. The nudges to go on are lost, so the path ends at the queued child."""
        for held in (threading.Event(), threading.Event()):
            self._start_team(Reply(("So: ", "go"), tool_calls=(_LAUNCH,), held_by=held), Reply(("Alpha.",)))
            until(lambda: ScriptedProvider.scripts["script"].requests)
            self._rig.drops = lambda task_name: task_name == "agents.advance_run"
            self._recorder.begin()
            held.set()
            trace = self._ended(lambda: until(Run.objects.filter(parent_id=self._run_id).exists))
            self._rig.drops = lambda task_name: False
        return trace

    def child_end(self) -> Trace:
        for held in (threading.Event(), threading.Event()):
            self._start_team(Reply(tool_calls=(_LAUNCH,)), Reply(("Al", "pha."), held_by=held))
            self._until_parked("children")
            self._recorder.begin()
            held.set()
            trace = self._ended(lambda: self._wait(0))
        return trace

    def _start_team(self, first: Reply, of_child: Reply) -> None:
        """Send a message in a session of its own, on which the agent launches a workstream and waits for it."""
        self._rig.agent(tool_profile="teams")
        wait = Reply(tool_calls=(ToolCall("wait", "wait_workstreams", "{}"),))
        ScriptedProvider.scripts["script"] = TeamScript([first, wait, Reply(("Done.",))], {"a": [of_child]})
        session = open_session(owner=self._rig.owner, title="Team")
        self._run_id = self._rig.send("go", session=session).run_id

    def token(self) -> Trace:
        return asyncio.run(self._token())

    async def _token(self) -> Trace:
        """Trace the second of three pieces, which come slowly enough to tell them apart."""
        held = threading.Event()
        reply = Reply(("one ", "two ", "three"), delay_seconds=2 * _REST_SECONDS, held_by=held)
        await in_db(self._rig.agent, reply)
        session = await in_db(partial(open_session, owner=self._rig.owner, title="Followed"))
        async with Tab(session, await in_db(cookie_of, self._rig.owner)) as tab:
            message = NewMessage(session.channel, session.account_id, session.sender_id, "Alice", "hello")
            await in_db(partial(receive, message, owner=self._rig.owner, session=session))
            await tab.until("text")
            self._recorder.begin()
            await tab.until("text")
            trace = self._recorder.end()
            held.set()
            await tab.until("answer")
        return trace

    def _until_parked(self, waiting_on: str) -> None:
        until(lambda: Run.objects.filter(pk=self._run_id, owner=None, waiting_on=waiting_on).exists())

    def _second(self, act: Callable[[int], Any], wait: Callable[[int], Any]) -> Trace:
        for number in (1, 2):
            self._recorder.begin()
            act(number)
            trace = self._ended(lambda number=number: wait(number))  # type: ignore[misc]
        return trace

    def _ended(self, wait: Callable[[], Any]) -> Trace:
        """Wait, in untraced code, for what ends a path. Return its trace."""
        sys.setprofile(None)
        wait()
        return self._recorder.end()


PATHS = {
    "webhook": "webhook → reply sent",
    "answer": "`receive` → answer stored",
    "answer_with_a_tool": "the same with one tool call",
    "approval": "approval decided → call made → end",
    "launch": "`launch_workstream` called → child queued",
    "child_end": "child's end → parent's end",
    "token": "one token → frame at the page",
}
