"""The real `@microsoft/signalr` client on the hub, over each of its transports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces import npm
from tests.surfaces.threads.ksapi_client import Client, text_of

pytestmark = pytest.mark.npm

Run = Callable[..., Any]
TRANSPORTS = ["websockets", "sse", "polling"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm.install(tmp_path_factory.mktemp("npm"), "@microsoft/signalr@10")


@pytest.fixture(scope="module")
def run(modules: Path, live_komand: LiveKomand) -> Run:
    token = live_komand.access_token()  # of short life: server-sent events carry it in the URL
    script = Path(__file__).with_name("client.cjs")

    def run(scenario: str, *, meanwhile: Callable[[], None] | None = None, **request: Any) -> Any:
        whole = {"url": f"{live_komand.url}/hubs/chat", "token": token, "scenario": scenario, **request}
        return npm.run_script(script, modules, whole, meanwhile=meanwhile)

    return run


def names(seen: list[Any]) -> list[str]:
    """Return the targets in order, without repetitions."""
    targets = [name for name, _ in seen]
    return [name for index, name in enumerate(targets) if index == 0 or targets[index - 1] != name]


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
    assert last == ["default", None, True]
    assert {len(arguments) for name, arguments in found["seen"] if name == "AgentTyping"} == {2}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_api_key_is_enough_for_each_transport_and_is_in_no_url(
    run: Run, live_komand: LiveKomand, transport: str
) -> None:
    found = run("ask", token=live_komand.api_key, transport=transport, text="echo hello")
    assert "ReceiveMessage" in names(found["seen"])
    assert not any("sk-user-" in url for url in found["urls"])
    assert len(found["urls"]) == int(transport != "polling")  # polls have the token in their headers


def test_a_client_may_skip_negotiation(run: Run) -> None:
    assert "ReceiveMessage" in names(run("ask", skipNegotiation=True, text="echo hello")["seen"])


def test_tool_calls_are_shown(run: Run) -> None:
    seen = run("ask", text="what is 17*23?")["seen"]
    started = next(arguments[1] for name, arguments in seen if name == "ToolStarted")
    ended = next(arguments[1] for name, arguments in seen if name == "ToolCompleted")
    assert started["tool"] == ended["tool"] == "calculator" and ended["status"] == "Completed"
    assert started["executionId"] == ended["executionId"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_interrupted_answer_is_resumed_without_gaps_or_duplicates(
    run: Run, model_server: ModelServer, transport: str
) -> None:
    text = "[[tokens=40 rate=100 hold=20]]"
    found = run("resume", transport=transport, positions=True, text=text, meanwhile=model_server.go_on)
    (message,) = next(arguments for name, arguments in found["then"] if name == "ReceiveMessage")
    first = "".join(arguments[1] or "" for name, arguments in found["first"] if name == "ReceiveToken")
    assert message["text"].startswith(first[:20])
    assert (first + tokens(found["then"])).strip() == message["text"]


def test_a_crash_during_an_answer_ends_with_the_stored_text(
    run: Run, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    found = run("meanwhile", text="[[tokens=60]]", upTo="tok19", meanwhile=lambda: live_komand.kill_runs())
    (message,) = [arguments[0] for name, arguments in found["seen"] if name == "ReceiveMessage"]
    stored = live_komand.get(f"sessions/{quote(found['sent']['sessionId'], safe='')}/history")[-1]
    assert message["text"] == stored["content"].strip() == tokens(found["seen"]).strip()
    assert len(message["text"].split()) == 60


def test_a_busy_agent_answers_one_after_the_other(run: Run, model_server: ModelServer) -> None:
    first, second = "[[tokens=20 rate=100 hold=10]]", "[[text=second]]"
    found = run("twice", text=first, upTo="tok9", then=second, meanwhile=model_server.go_on)
    messages = [arguments[0] for name, arguments in found["seen"] if name == "ReceiveMessage"]
    assert [message["messageId"] for message in messages] == [found[name]["messageId"] for name in ("first", "second")]
    assert len(messages[0]["text"].split()) == 20 and "second" in messages[1]["text"]


@pytest.mark.parametrize(("decision", "status"), [("allow_once", "Completed"), ("deny", "Failed")])
def test_an_approval_request_is_shown_and_decided(run: Run, decision: str, status: str) -> None:
    write = '[[tool=write_artifact args={"path":"files/hub.txt","content":"hi"}]]'
    found = run("approve", text=write, decision=decision)
    calls = {name: arguments[1] for name, arguments in found["seen"] if name.startswith(("Approval", "Tool"))}
    assert found["decided"]["decision"] == decision
    assert calls["ApprovalRequested"]["approvalId"] == calls["ApprovalDecided"]["approvalId"]
    assert calls["ToolCompleted"]["status"] == status


def test_a_failed_tool_call_has_its_error(run: Run) -> None:
    seen = run("ask", text='[[tool=calculator args={"expression":"1/0"}]]')["seen"]
    (ended,) = [arguments[1] for name, arguments in seen if name == "ToolCompleted"]
    assert ended["status"] == "Failed" and ended["error"]


def test_a_source_is_cited_by_the_whole_message(run: Run, model_server: ModelServer) -> None:
    url = f"{model_server.base_url}/models"
    seen = run("ask", text=f'[[tool=web_fetch args={{"url":"{url}"}}]]')["seen"]
    (source,) = json.loads(next(arguments[1] for name, arguments in seen if name == "ToolCompleted")["output"])[
        "sources"
    ]
    seen = run("ask", text=f'[[text="So it is [{source["cite"]}]."]]')["seen"]
    (message,) = [arguments[0] for name, arguments in seen if name == "ReceiveMessage"]
    (cited,) = message["citations"]
    assert (cited["uri"], cited["id"]) == (url, source["cite"])
    assert message["text"][cited["offset"] :][: cited["length"]] == f"[{source['cite']}]"


def test_a_message_of_another_protocol_has_the_same_answer_in_both(
    run: Run, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    key = live_komand.api_key
    threads, events = Client(live_komand.url, access_token=key), []
    thread = threads.open("Both")

    def ask() -> None:
        threads.send(thread, "[[tokens=30 rate=100]]")
        events.extend(threads.stream(thread))

    seen = run("watch", session=str(thread.id), meanwhile=ask)["seen"]
    (message,) = [arguments[0] for name, arguments in seen if name == "ReceiveMessage"]
    assert message["text"] == tokens(seen).strip() == text_of(events).strip() and len(message["text"].split()) == 30


def test_a_stream_has_the_same_events(run: Run) -> None:
    items = run("stream", text="[[tokens=10 rate=100]]")["items"]
    assert items[-1]["event"] == "AgentTyping"
    assert [item["event"] for item in items if item["event"] == "ReceiveMessage"]


def test_cancelling_ends_the_answer_with_its_reason(run: Run) -> None:
    found = run("cancel", text="[[tokens=400 rate=20]]")
    assert found["stopped"] == 1
    failed = next(arguments for name, arguments in found["seen"] if name == "RunFailed")
    assert failed[1]["code"] == "cancelled"


def test_a_failed_model_call_is_shown(run: Run) -> None:
    seen = run("ask", text="[[status=400]]")["seen"]
    failed = next(arguments for name, arguments in seen if name == "RunFailed")
    assert failed[1]["code"].startswith("model_") and failed[1]["message"]


def test_an_invalid_call_is_rejected(run: Run) -> None:
    calls = [
        ["SendMessage", "nobody", "hi"],
        ["SendMessage", "default", ""],
        ["SendMessage", "default"],
        ["Nothing"],
        ["Resume", "WebChat:default:999999"],
        ["Resume", 7],
    ]
    errors = run("refused", calls=calls)["errors"]
    assert all(errors), errors
    assert "nobody" in errors[0] and "Nothing" in errors[3]


def test_a_wrong_token_is_refused(run: Run) -> None:
    assert "401" in run("refused", token="sk-user-wrong", calls=[])["start"]
