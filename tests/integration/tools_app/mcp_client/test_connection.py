"""Connections to real MCP servers, good and bad: results, limits and clean-up."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.engine import until
from tests.support.mcp import BAD, Caller, LoopThread, bad, good, serving
from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.errors import ServerFault
from tools_app.types import ToolError

pytestmark = pytest.mark.one_database


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(scope="module", params=["stdio", "streamable_http", "sse"])
def caller(
    request: pytest.FixtureRequest, loop: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Caller]:
    """Return a caller of the good server, for each transport."""
    if request.param == "stdio":
        caller = Caller(loop, good(tmp_path_factory.mktemp("good"))).open()
        yield caller
        caller.close()
        return
    path = "/mcp" if request.param == "streamable_http" else "/sse"
    with serving(request.param.replace("_", "-")) as url:
        caller = Caller(loop, ServerConfig("good", request.param, url=url + path)).open()
        yield caller
        caller.close()


def test_a_server_greets_and_lists_its_tools(caller: Caller) -> None:
    greeting = caller.connection.greeting
    assert (greeting.name, greeting.version) == ("good", "1.2.3")
    add = caller.connection.tools["add"]
    assert add.description == "Adds two numbers."
    assert add.parameters["required"] == ["a", "b"]
    assert add.hints == {"readOnlyHint": True}


def test_a_call_returns_the_tools_result(caller: Caller) -> None:
    assert caller.call("add", a=2, b=3) == {"total": 5}
    assert caller.call("shout", text="hé") == {"result": "HÉ"}
    assert caller.call("picture")["attachments"] == [{"type": "image", "mime_type": "image/png", "bytes": 9}]
    assert [picture.data for picture in caller.pictures_of("picture")] == [b"\x89PNG\r\n\x1a\n1"]


def test_a_tools_own_error_is_for_the_model_and_the_connection_goes_on(caller: Caller) -> None:
    with pytest.raises(ToolError, match="fail"):
        caller.call("fail", reason="no such thing")
    with pytest.raises(ToolError, match="nothing"):
        caller.call("nothing")
    assert caller.call("add", a=1, b=1) == {"total": 2}


def test_progress_is_reported(caller: Caller) -> None:
    caller.progress.clear()
    caller.call("slowly", steps=3)
    assert (3.0, 3.0, "step 3") in until(lambda: len(caller.progress) == 3 and caller.progress)


def test_a_cancelled_call_is_cancelled_at_the_server(caller: Caller, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    call = caller.begin("hang", ledger=str(ledger))
    until(ledger.exists)
    call.cancel()
    until(lambda: ledger.read_text() == "begun\ncancelled\n")
    assert caller.call("add", a=1, b=1) == {"total": 2}


def test_a_changed_list_is_heard_of(caller: Caller) -> None:
    caller.call("grow")
    until(lambda: caller.changes)
    caller.loop.run(caller.connection.list_tools())
    assert "grown" in caller.connection.tools


def test_a_check_of_a_living_server_is_silent(caller: Caller) -> None:
    caller.loop.run(caller.connection.check())


@pytest.mark.parametrize("caller", ["stdio"], indirect=True)
def test_a_process_is_given_its_own_variables_and_folder_alone(caller: Caller) -> None:
    text = caller.call("environment")["result"]
    assert caller.call("secret_length") == {"result": 10}
    assert "KOMAND_DATA_DIR" in os.environ and "KOMAND" not in text and "DJANGO" not in text
    assert "/good" in text.rpartition(" in ")[2]


@pytest.mark.parametrize(
    ("how", "seconds", "problem"),
    [("dies", 30, "its process ended"), ("hang", 1, "it did not respond within 1 seconds")],
)
def test_a_server_that_does_not_complete_the_handshake_is_given_up(
    loop: LoopThread, tmp_path: Path, how: str, seconds: int, problem: str
) -> None:
    caller = Caller(loop, bad(tmp_path, how, connect_seconds=seconds))
    with pytest.raises(ServerFault, match=problem):
        caller.open()
    assert not servers(tmp_path)


def test_the_last_log_lines_of_a_process_are_kept_for_operators(loop: LoopThread, tmp_path: Path) -> None:
    caller = Caller(loop, bad(tmp_path, "dies", connect_seconds=30))
    with pytest.raises(ServerFault):
        caller.open()
    assert until(lambda: caller.connection.last_log_lines) == "no licence found"


def test_a_command_that_does_not_exist_is_a_fault(loop: LoopThread, tmp_path: Path) -> None:
    caller = Caller(loop, ServerConfig("none", "stdio", "no-such-program", folder=tmp_path))
    with pytest.raises(ServerFault):
        caller.open()
    assert "no-such-program cannot be run" in until(lambda: caller.connection.last_log_lines)


def test_a_host_that_does_not_answer_is_a_fault(loop: LoopThread) -> None:
    caller = Caller(loop, ServerConfig("none", "streamable_http", url="http://127.0.0.1:9/mcp"))
    with pytest.raises(ServerFault, match="connect"):
        caller.open()


@pytest.mark.parametrize(
    ("how", "problem", "goes_on"),
    [
        ("crash", "its process ended. Whether the call took effect is not known", False),
        ("lie", "returned an invalid result of act: n: must be integer, not string", True),
        ("silent-lie", "returned an invalid result of act: must be object, not null", True),
        ("bomb", "returned an invalid result of act: it takes too long to be checked", True),
        ("nonsense", "returned an invalid result of act", True),
        ("huge", "it sent a message of more than 4096 KB", False),
        ("endless", "it sent a message of more than 4096 KB", False),
        ("chatter", "it sends too many messages", False),
    ],
)
def test_a_server_that_misbehaves_in_a_call(
    loop: LoopThread, tmp_path: Path, how: str, problem: str, goes_on: bool
) -> None:
    caller = Caller(loop, bad(tmp_path, how)).open()
    with pytest.raises(ToolError, match=problem):
        caller.call("act")
    assert caller.connection.is_open is goes_on
    caller.close()
    assert not servers(tmp_path)


def test_what_is_no_message_is_passed_over(loop: LoopThread, tmp_path: Path) -> None:
    caller = Caller(loop, bad(tmp_path, "babble")).open()
    assert caller.call("act") == "acted"
    caller.close()


def test_tools_that_cannot_be_offered_are_named_with_the_reason(loop: LoopThread, tmp_path: Path) -> None:
    caller = Caller(loop, bad(tmp_path, "odd-tools")).open()
    caller.close()
    assert sorted(caller.connection.tools) == ["a.b", "a_b", "act"]
    assert caller.connection.skipped["outside"] == "the schema has an external reference: $ref"
    assert caller.connection.skipped["no-schema"].startswith("not a valid JSON Schema: ")


def test_closing_ends_a_stubborn_process_and_what_it_left_behind(loop: LoopThread, tmp_path: Path) -> None:
    for how in ("stubborn", "child"):
        Caller(loop, bad(tmp_path, how)).open().close()
        assert not servers(tmp_path)
    child = int((tmp_path / "child.pid").read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_check_of_a_silent_server_ends_the_connection(loop: LoopThread, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tools_app.mcp_client.connection._CHECK_SECONDS", 0.2)
    caller = Caller(loop, bad(tmp_path, "hang-call")).open()
    caller.begin("act").cancel()
    caller.begin("act")
    with pytest.raises(ServerFault, match="did not respond to a ping"):
        loop.run(caller.connection.check())
    assert not caller.connection.is_open
    caller.close()


def servers(folder: Path) -> list[int]:
    """Return the server processes still running for this path: other tests start the same servers concurrently."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line, cwd = process.info["cmdline"] or [], process.info["cwd"]
        if BAD in line and cwd and Path(cwd).is_relative_to(folder):
            found.append(process.pid)
    return found
