"""Trees of 1 + 50 agents over three levels, whose answers prove that each parent has heard each child."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tests.chaos.live_faults_support import Installation, Sent
from tests.fakes.model_server import ModelServer

_GROUPS, _LEAVES = 5, 9
_RATE = 12  # tokens a second: a leaf takes two seconds
_LEAF_BUDGET, _GROUP_BUDGET = 10, 500_000
_ROLE = re.compile(r"as the workstream '([^']+)'")
_REPORT = re.compile(r"\[Workstream (\w+) \(")
_TEXT = " ".join(f"word{number}" for number in range(2 * _RATE))
_GROUP_NAMES = [f"g{group}" for group in range(_GROUPS)]
_POOR = _GROUP_NAMES[-1]  # its leaves have a budget that one model call exceeds
AGENTS = 1 + _GROUPS + _GROUPS * _LEAVES


def _leaves_of(group: str) -> list[str]:
    return [f"{group}_{leaf}" for leaf in range(_LEAVES)]


class TreeModel(ModelServer):
    """The model of all agents of a tree. It replies by the role of a request and by what that has answered before.

    The root launches groups and waits for them; a group launches leaves, and answers while they work; every third leaf,
    and those with a budget, call a tool first. Whoever has launched others answers with the names of those that have
    reported.
    """

    def line_of(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        found = _ROLE.search(messages[0]["content"])
        name = found[1] if found else "root"
        has_answered = any(message["role"] == "assistant" for message in messages)
        if "_" in name:
            calls = name.startswith(_POOR) or name.endswith(("0", "3", "6"))
            return _calls(["echo", {"text": name}]) if calls and not has_answered else _says(_TEXT, rate=_RATE)
        if not has_answered:
            return _calls(*_launches(name))
        heard = sorted({each for message in messages[1:] for each in _REPORT.findall(str(message["content"]))})
        return _says(f"{name}: {' '.join(heard)}")


def _launches(name: str) -> Iterator[list[Any]]:
    for child in _GROUP_NAMES if name == "root" else _leaves_of(name):
        budget = {_POOR: _GROUP_BUDGET}.get(child) or (_LEAF_BUDGET if name == _POOR else None)
        limit = {"budget_tokens": budget} if budget else {}
        yield ["launch_workstream", {"id": child, "instruction": f"Do the part {child}.", **limit}]
    if name == "root":
        yield ["wait_workstreams", {}]


def _calls(*calls: list[Any]) -> str:
    return f"[[tools={json.dumps(calls)}]]"


def _says(text: str, *, rate: int = 0) -> str:
    return f"[[text={json.dumps(text)} rate={rate}]]"


def expected_ends() -> dict[str, tuple[str, str, str]]:
    """Return (status, error code, answer) of all runs by their names; that of the root is empty."""
    ends = {"": ("completed", "", f"root: {' '.join(_GROUP_NAMES)}")}
    for group in _GROUP_NAMES:
        ends[group] = ("completed", "", f"{group}: {' '.join(_leaves_of(group))}")
        end = ("failed", "budget_exhausted", "") if group == _POOR else ("completed", "", _TEXT)
        ends |= dict.fromkeys(_leaves_of(group), end)
    return ends


class Tree:
    """A tree that runs in an installation."""

    def __init__(self, host: Installation, agent: str) -> None:
        self._host = host
        self._sent: Sent = host.send("Do all parts.", agent=agent)
        self._session = host.key(self._sent.session_id)

    @property
    def run_id(self) -> UUID:
        return self._sent.run_id

    @property
    def is_open(self) -> bool:
        return self._host.run(self.run_id)["ended_at"] is None

    def check(self) -> None:
        """Check its end. Raises AssertionError with what differs from a tree without faults."""
        rows = self._host.rows(f"SELECT * FROM komand_run WHERE conversation_id = '{self._session}'")
        assert Counter(row["workstream"] for row in rows) == Counter(dict.fromkeys(expected_ends(), 1))
        found = {row["workstream"]: (row["status"], row["error_code"], row["answer"]) for row in rows}
        differing = {name: end for name, end in found.items() if end != expected_ends()[name]}
        assert not differing, f"{len(differing)} of {AGENTS} ended otherwise: {differing}"
        assert all(row["owner"] is None and row["conversation_told"] for row in rows)
        self._check_tokens(rows)

    def _check_tokens(self, rows: list[dict[str, Any]]) -> None:
        """Check that each recorded call is counted once, and that budgets are exceeded by one call at most."""
        steps = self._host.rows(
            "SELECT run_id, COUNT(*) calls, SUM(input_tokens + output_tokens) tokens FROM komand_step"
            f" WHERE run_id IN (SELECT id FROM komand_run WHERE conversation_id = '{self._session}') GROUP BY run_id"
        )
        found = {step["run_id"]: step for step in steps}
        for row in rows:
            assert found[row["id"]]["tokens"] == row["input_tokens"] + row["output_tokens"], row["workstream"]
            if row["workstream"] in _leaves_of(_POOR):
                assert found[row["id"]]["calls"] == 1, f"{row['workstream']} called the model after its budget"
        used = sum(step["tokens"] for step in steps)
        days = self._host.rows(
            "SELECT SUM(input_tokens + output_tokens) tokens FROM komand_daily_usage"
            f" WHERE conversation_id = '{self._session}'"
        )
        assert used == days[0]["tokens"]
