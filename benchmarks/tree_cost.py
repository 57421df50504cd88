"""Times trees of runs in process, with a model that answers at once. Prints JSON: milliseconds of CPU, and statements.

A separate program, because it needs Django: `python -m benchmarks.tree_cost WIDTH ROUNDS` on a prepared data folder
without a running gateway. It receives messages and drives their runs itself: one that is a tree of WIDTH workstreams,
one that is a network of WIDTH tasks, and WIDTH messages of their own for the ratio. They take turns. With `prepare` in
place of the numbers it lets the default agent call the fake model with the tool of workstreams alone, and creates the
user `bench`.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from unittest import mock
from uuid import UUID

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from django.contrib.auth.models import Group, User  # noqa: E402

from agents_app.models import Agent, ModelProvider, Run  # noqa: E402
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider  # noqa: E402
from agents_app.runs.worker import EngineThread  # noqa: E402
from agents_app.services import DEFAULT_OPTIONS  # noqa: E402
from agents_app.types import ModelRequest, RunOptions, Usage  # noqa: E402
from audit_app.kernel import nudges  # noqa: E402
from benchmarks.statements import Counting  # noqa: E402
from sessions_app.services import NewMessage, ReceiveOptions, open_session, receive  # noqa: E402
from tests.support.team_script import TeamScript, role_of  # noqa: E402
from tools_app.executions import loop_runner  # noqa: E402
from tools_app.types import ToolCall  # noqa: E402

_SECONDS = 120
_ANSWER = Reply(("It is ", "done."), usage=Usage(100, 5))


class Team(TeamScript):
    """The root launches workstreams and answers; all others answer at once."""

    def take(self, request: ModelRequest) -> Reply:
        is_root = role_of(request) == "main" and request.messages[-1].content == "team"
        return self._replies["main"][0] if is_root else _ANSWER


class Bench:
    """Runs of one user in this process."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._user = User.objects.create_user("trees", "trees@localhost", None)
        self._engine = EngineThread()
        provider = ModelProvider.objects.create(name="trees", kind="scripted")
        Agent.objects.filter(agent_id="default").update(provider=provider, model_id="trees", tool_profile="teams")
        launches = tuple(
            ToolCall(f"c{at}", "launch_workstream", json.dumps({"id": f"w{at}", "instruction": "Work."}))
            for at in range(width)
        )
        ScriptedProvider.scripts["trees"] = Team([Reply(tool_calls=launches)], {})
        tasks = "\n".join(f"- {{name: t{at}}}" for at in range(width))
        self._network = {"name": "net", "version": 1, "definition": f"name: net\ntasks:\n{tasks}\n", "context": {}}

    def measure(self, rounds: int) -> dict[str, float]:
        """Return the medians for each child, task and message."""
        counting = Counting()
        found: dict[str, list[float]] = {}
        kinds: dict[str, Callable[[], None]] = {"message": self._messages, "child": self._tree, "task": self._net}
        with mock.patch.object(nudges, "send", self._send):
            self._engine.start()
            try:
                for at in range(rounds + 1):
                    for kind, act in kinds.items():
                        figures = self._figures(act, counting)
                        for name, value in figures.items() if at else ():  # the first ones compile statements
                            found.setdefault(f"{kind}_{name}", []).append(value / self._width)
            finally:
                self._engine.stop()
        return {name: statistics.median(values) for name, values in found.items()}

    def _figures(self, act: Callable[[], None], counting: Counting) -> dict[str, float]:
        counting.take()
        begun = time.process_time()
        act()
        spent = (time.process_time() - begun) * 1000
        _, others = counting.take()
        return {"cpu": spent, **others}

    def _messages(self) -> None:
        for _ in range(self._width):
            self._receive("hello")
        self._wait()

    def _tree(self) -> None:
        self._receive("team")
        self._wait()

    def _net(self) -> None:
        self._receive("all", RunOptions(network=self._network))
        self._wait()

    def _receive(self, text: str, options: RunOptions = DEFAULT_OPTIONS) -> None:
        session = open_session(owner=self._user)
        inbound = NewMessage.into(session, text)
        receive(inbound, owner=self._user, session=session, options=ReceiveOptions(run=options))

    def _send(self, task_name: str, args: tuple[str, ...], **_: object) -> None:
        if task_name == "tools.execute_here":
            loop_runner.nudge(UUID(args[0]))
        else:
            self._engine.nudge(UUID(args[0]))

    def _wait(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while Run.objects.filter(ended_at=None).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the runs have not ended within {_SECONDS} s")
            time.sleep(0.05)
        if failed := list(Run.objects.exclude(status="completed").values_list("error_message", flat=True)[:1]):
            raise RuntimeError(f"a run failed: {failed[0]}")


def prepare() -> None:
    provider = ModelProvider.objects.get(kind="openai")
    settings = {"provider": provider, "model_id": "", "tool_profile": "teams", "enabled_tools": ["launch_workstream"]}
    Agent.objects.filter(agent_id="default").update(**settings)
    Run.objects.all().delete()
    user = User.objects.create_user("bench", "bench@localhost", None)
    user.groups.set(Group.objects.all())


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare()
    else:
        print(json.dumps(Bench(int(sys.argv[1])).measure(int(sys.argv[2]))))
