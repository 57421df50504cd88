"""A tree of runs whose installation is stopped, backed up, and restored on another folder a week later."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.live_faults_support import Installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import ROOT, clean_environment, start_komand, wait_for
from tests.support.stepped_clock import COMPILER, SteppedClock

pytestmark = [
    pytest.mark.whole,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux" or not COMPILER, reason="no C compiler: NOT TESTED a week later"),
]

WEEK_SECONDS = 7 * 24 * 3600
ROLE = re.compile(r"as the workstream '([^']+)'")
REPORT = re.compile(r"\[Workstream (\w+) \(")
CHILDREN = {"root": ["left", "right"], "left": ["slow", "asks"], "right": ["quick"]}


class Model(ModelServer):
    """The model of all agents. One that has launched others answers with the names of those that have reported."""

    def line_of(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        found = ROLE.search(messages[0]["content"])
        name = found[1] if found else "root"
        has_answered = any(message["role"] == "assistant" for message in messages)
        if name == "slow":
            return "[[tokens=60 rate=5]]"
        if name == "asks" and not has_answered:
            return _calls(["ask_user", {"question": "Which colour?"}])
        if name not in CHILDREN:
            return f"[[text={'red' if 'Red.' in str(messages[-1]) else name}]]"
        if not has_answered:
            launches = [["launch_workstream", {"id": child, "instruction": child}] for child in CHILDREN[name]]
            return _calls(*launches, ["wait_workstreams", {}])
        heard = sorted({each for message in messages[1:] for each in REPORT.findall(str(message["content"]))})
        return f"[[text={json.dumps(' '.join([f'{name}:', *heard]))}]]"


def _calls(*calls: list[Any]) -> str:
    return f"[[tools={json.dumps(calls)}]]"


def test_a_tree_that_is_restored_a_week_later_ends_as_it_would_have_ended(tmp_path: Path) -> None:
    clock = SteppedClock(tmp_path)
    with Model() as model:
        settings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake"}
        settings |= clock.environment
        old = start_komand(tmp_path / "old", **settings)
        try:
            host = Installation(old, model, "")
            host.post("/api/agents", {"agentId": "tree", "name": "Tree", "toolProfile": "teams", "modelId": "fake"})
            sent = host.send("Do all parts.", account="kept", agent="tree")
            wait_for(lambda: _states(host).get("right") == "completed" and _states(host).get("left") == "waiting")
            wait_for(lambda: _states(host).get("asks") == "waiting" and _states(host).get("slow") == "running")
        finally:
            host.close()
            old.stop()
        done = old.manage("backup", str(tmp_path / "backup"))
        assert done.returncode == 0, done.stderr
        clock.step(WEEK_SECONDS)
        place = clean_environment(KOMAND_DATA_DIR=str(tmp_path / "new" / "data"), **settings)
        command = [sys.executable, "manage.py", "restore", "--resume", str(tmp_path / "backup")]
        subprocess.run(command, cwd=ROOT, env=place, check=True, timeout=100)
        new = start_komand(tmp_path / "new", **settings)
        new.password = old.password
        try:
            host = Installation(new, model, "")
            assert host.send("Red.", account="kept", agent="tree").run_id == sent.run_id  # it answers the question
            ended = host.wait_ended(sent.run_id)
            assert (ended["status"], ended["answer"]) == ("completed", "root: left right")
            ends = {row["workstream"]: row["answer"] for row in host.rows("SELECT * FROM komand_run")}
            assert ends["left"] == "left: asks slow" and ends["asks"] == "red"
            assert set(_states(host).values()) == {"completed"}
            [entry] = host.rows("SELECT * FROM komand_audit_log WHERE action = 'Resumed'")
            assert WEEK_SECONDS <= json.loads(entry["details"])["seconds"] < WEEK_SECONDS + 600
            host.check_invariants()
        finally:
            host.close()
            new.stop()


def _states(host: Installation) -> dict[str, str]:
    return {row["workstream"]: row["status"] for row in host.rows("SELECT workstream, status FROM komand_run")}
