"""The real `@microsoft/signalr` client on the hub, over each of its transports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live import LiveKomand
from tests.surfaces import npm

pytestmark = pytest.mark.npm

Run = Callable[..., Any]
TRANSPORTS = ["websockets", "sse", "polling"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm.install(tmp_path_factory.mktemp("npm"), "@microsoft/signalr@10")


@pytest.fixture(scope="module")
def run(modules: Path, live_komand: LiveKomand) -> Run:
    key = live_komand.manage("create_api_key", "--user", "admin", "--name", "hub").stdout.strip()
    script = Path(__file__).with_name("client.cjs")

    def run(scenario: str, **request: Any) -> Any:
        whole = {"url": f"{live_komand.url}/hubs/chat", "token": key, "scenario": scenario, **request}
        return npm.run_script(script, modules, whole)

    return run


def names(seen: list[Any]) -> list[str]:
    """Targets in their order, repetitions as one."""
    told = [name for name, _ in seen]
    return [name for index, name in enumerate(told) if index == 0 or told[index - 1] != name]


def tokens(seen: list[Any]) -> str:
    return "".join(arguments[1] or "" for name, arguments in seen if name == "ReceiveToken")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_answer_comes_token_by_token_over_each_transport(run: Run, transport: str) -> None:
    found = run("ask", transport=transport, text="[[tokens=20 rate=100]]")
    assert names(found["seen"]) == ["AgentTyping", "ReceiveToken", "ReceiveMessage", "AgentTyping"]
    (message,) = next(arguments for name, arguments in found["seen"] if name == "ReceiveMessage")
    assert message["text"] == message["content"] == tokens(found["seen"]).strip()
    assert message["messageId"] == found["sent"]["messageId"] and message["agentId"] == "default"
    last = [arguments for name, arguments in found["seen"] if name == "ReceiveToken"][-1]
    assert last[:3] == ["default", None, True]


def test_a_client_may_skip_negotiation(run: Run) -> None:
    assert "ReceiveMessage" in names(run("ask", skipNegotiation=True, text="echo hello")["seen"])


def test_tools_are_seen(run: Run) -> None:
    seen = run("ask", text="what is 17*23?")["seen"]
    started = next(arguments[1] for name, arguments in seen if name == "ToolStarted")
    ended = next(arguments[1] for name, arguments in seen if name == "ToolCompleted")
    assert started["tool"] == ended["tool"] == "calculator" and ended["status"] == "Completed"
    assert started["executionId"] == ended["executionId"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dropped_answer_is_taken_up_without_gap_or_double(run: Run, transport: str) -> None:
    found = run("resume", transport=transport, text="[[tokens=40 rate=40]]")
    (message,) = next(arguments for name, arguments in found["then"] if name == "ReceiveMessage")
    first = "".join(arguments[1] or "" for name, arguments in found["first"] if name == "ReceiveToken")
    assert message["text"].startswith(first[:20])
    assert (first + tokens(found["then"])).strip() == message["text"]


def test_a_stream_has_the_same_events(run: Run) -> None:
    items = run("stream", text="[[tokens=10 rate=100]]")["items"]
    assert items[-1]["event"] == "AgentTyping"
    assert [item["event"] for item in items if item["event"] == "ReceiveMessage"]


def test_cancelling_ends_the_answer_with_its_reason(run: Run) -> None:
    found = run("cancel", text="[[tokens=400 rate=20]]")
    assert found["stopped"] == 1
    failed = next(arguments for name, arguments in found["seen"] if name == "RunFailed")
    assert failed[1]["code"] == "cancelled"


def test_a_failing_model_is_told(run: Run) -> None:
    seen = run("ask", text="[[status=400]]")["seen"]
    failed = next(arguments for name, arguments in seen if name == "RunFailed")
    assert failed[1]["code"].startswith("model_") and failed[1]["message"]


def test_what_cannot_be_done_is_an_error_of_the_call(run: Run) -> None:
    calls = [
        ["SendMessage", "nobody", "hi"], ["SendMessage", "default", ""], ["SendMessage", "default"], ["Nothing"],
        ["Resume", "WebChat:default:999999"], ["Resume", 7],
    ]  # fmt: skip
    errors = run("refused", calls=calls)["errors"]
    assert all(errors), errors
    assert "nobody" in errors[0] and "Nothing" in errors[3]


def test_a_wrong_token_does_not_get_in(run: Run) -> None:
    assert "401" in run("refused", token="sk-user-wrong", calls=[])["start"]
