"""A tool of an MCP server in a whole installation: the worker calls it, and a killed worker ends its servers."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.live_server import LiveKomand, wait_for
from tests.support.mcp import BAD

pytestmark = pytest.mark.one_database

CALL = "[[tool=mcp__{}__act args={{}}]]"


@pytest.fixture
def add(live_komand: LiveKomand) -> Iterator[Callable[[str], None]]:
    """Return a function that adds a server with this behaviour, whose tool needs no approval."""
    added: list[str] = []

    def add_server(how: str) -> None:
        done = live_komand.manage("mcp", "add", how, "--risk", "low", "--command", sys.executable, "-S", BAD, how)
        assert done.returncode == 0, done.stderr
        added.append(how)

    yield add_server
    for name in added:
        live_komand.manage("mcp", "remove", name)


def executions(komand: LiveKomand, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool executions of an answer's run."""
    run = komand.get(f"runs/{answer['meta']['runId']}")
    return [komand.get(f"tools/executions/{call}") for call in run["toolCallIds"]]


def processes(komand: LiveKomand, how: str) -> list[psutil.Process]:
    """Return the server processes of this installation only: other tests run servers of the same kind."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line, cwd = process.info["cmdline"] or [], process.info["cwd"]
        if line[-2:] == [BAD, how] and cwd and Path(cwd).is_relative_to(komand.data_dir):
            found.append(process)
    return found


def test_a_call_is_made_by_the_runs_worker(live_komand: LiveKomand, add: Any) -> None:
    add("fine")
    answer = live_komand.ask(CALL.format("fine"))
    assert answer["success"], answer
    [execution] = executions(live_komand, answer)
    assert (execution["status"], execution["output"]) == ("Completed", '"acted"')
    assert len(processes(live_komand, "fine")) == 1, "the connection is kept for the next call"


def test_a_killed_worker_ends_its_servers_and_the_model_gets_an_error(live_komand: LiveKomand, add: Any) -> None:
    add("hang-call")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(live_komand.ask, CALL.format("hang-call"), 60)
        wait_for(lambda: processes(live_komand, "hang-call"), 60, "the server's process")
        live_komand.kill_runs()
        wait_for(lambda: not processes(live_komand, "hang-call"), 60, "the end of the server's process")
        answer = asking.result(90)
    assert answer["success"], answer
    [execution] = executions(live_komand, answer)
    assert execution["status"] == "Unknown"
    live_komand.wait_healthy("runs-1")
