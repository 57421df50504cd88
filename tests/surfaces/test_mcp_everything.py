"""The reference test server of MCP, from the npm registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine import until
from tests.support.mcp import Caller, LoopThread
from tests.surfaces import npm
from tools_app.mcp_client.config import ServerConfig
from tools_app.types import ToolError

pytestmark = pytest.mark.npm

PACKAGE = "@modelcontextprotocol/server-everything@2026"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the server into a temporary folder and return its program."""
    modules = npm.install(tmp_path_factory.mktemp("npm"), PACKAGE)
    return modules / ".bin" / "mcp-server-everything"


@pytest.fixture(scope="module")
def everything(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    loop = LoopThread()
    config = ServerConfig("everything", "stdio", str(program), ("stdio",), {}, tmp_path_factory.mktemp("cwd"))
    caller = Caller(loop, config).open()
    yield caller
    caller.close()
    loop.close()


def test_its_tools_are_listed_and_can_be_called(everything: Caller) -> None:
    assert {"echo", "get-sum", "get-structured-content", "get-tiny-image"} <= set(everything.connection.tools)
    assert everything.connection.skipped == {}
    assert everything.connection.greeting.name == "mcp-servers/everything"


def test_texts_numbers_and_structures(everything: Caller) -> None:
    assert everything.call("echo", message="héllo") == "Echo: héllo"
    assert "5" in everything.call("get-sum", a=2, b=3)
    weather = everything.call("get-structured-content", location="New York")
    assert set(weather) == {"temperature", "conditions", "humidity"}


def test_images_and_links_are_described(everything: Caller) -> None:
    [image] = everything.call("get-tiny-image")["attachments"]
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    links = everything.call("get-resource-links", count=2)["attachments"]
    assert [link["type"] for link in links] == ["resource_link", "resource_link"]


def test_a_long_operation_reports_progress_and_can_be_cancelled(everything: Caller) -> None:
    everything.progress.clear()
    everything.call("trigger-long-running-operation", duration=1, steps=4)
    until(lambda: [step for step, _, _ in everything.progress] == [1, 2, 3, 4])  # perhaps after the result
    call = everything.begin("trigger-long-running-operation", duration=60, steps=60)
    until(lambda: len(everything.progress) > 4)
    call.cancel()
    assert everything.call("echo", message="still there") == "Echo: still there"


def test_it_gets_none_of_our_environment_variables(everything: Caller) -> None:
    assert "KOMAND" not in everything.call("get-env") and "DJANGO" not in everything.call("get-env")


def test_the_server_refuses_wrong_arguments(everything: Caller) -> None:
    with pytest.raises(ToolError):
        everything.call("get-sum", a="two")
