"""The real `@vertesia/client` on agent runs. Its own schemas check the messages."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces import npm
from tests.surfaces.threads.ksapi_client import Client, text_of

pytestmark = pytest.mark.npm

Run = Callable[..., Any]
WRITE = '[[tool=write_artifact args={"path":"files/x.txt","content":"hi"}]]'


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm.install(tmp_path_factory.mktemp("npm"), "@vertesia/client@1.5.0", "ws@8")


@pytest.fixture(scope="module")
def run(modules: Path, live_komand: LiveKomand) -> Run:
    key = live_komand.api_key
    script = Path(__file__).with_name("client.mjs")

    def run(
        scenario: str, url: str = live_komand.url, *, meanwhile: Callable[[], None] | None = None, **request: Any
    ) -> Any:
        whole = {"url": url, "token": key, "scenario": scenario, **request}
        found = npm.run_script(script, modules, whole, meanwhile=meanwhile)
        assert found.pop("problems") == []
        return found

    return run


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    """Return the types in order, without chunks."""
    return [
        AgentMessageType(message["type"]).name
        for message in messages
        if message["type"] != AgentMessageType.STREAMING_CHUNK
    ]


def acknowledged(messages: list[dict[str, Any]], ack: str) -> int:
    return sum((message.get("details") or {}).get("ack") == ack for message in messages)


def test_a_turn_is_streamed_and_ends(run: Run) -> None:
    found = run("talk", text="[[tokens=20 rate=60]]")
    assert kinds(found["seen"]) == ["QUESTION", "ANSWER", "IDLE"]
    chunks = [message for message in found["seen"] if message["type"] == AgentMessageType.STREAMING_CHUNK]
    answer = found["seen"][-2]
    assert "".join(message["text"] for message in chunks) == answer["text"]
    assert {message["details"]["activity_id"] for message in chunks} == {answer["details"]["activity_id"]}
    assert chunks[-1]["details"]["is_final"]
    assert (found["after"]["status"], found["after"]["activity_state"]) == ("running", "idle")


def test_work_that_is_not_interactive_completes(run: Run) -> None:
    found = run("talk", text="what is 17*23?", more={"interactive": False})
    assert kinds(found["seen"])[-2:] == ["ANSWER", "COMPLETE"] and "391" in found["seen"][-1]["text"]
    assert found["after"]["status"] == "completed"


def test_a_repeated_message_is_stored_once(run: Run) -> None:
    found = run("twoTurns")
    assert acknowledged(found["seen"], "m-2") == 1
    assert kinds(found["seen"])[-1] == "IDLE" and found["signalled"]["status"] == "success"


class Cutting:
    """A TCP proxy that cuts the first stream in the middle of its text."""

    def __init__(self, url: str) -> None:
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.streams = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        is_first_stream = threading.Event()
        threading.Thread(target=self._pass_requests, args=(client, server, is_first_stream), daemon=True).start()
        chunks = 0
        with self._ending(server, client):
            while data := server.recv(65536):
                client.sendall(data)
                chunks += data.count(b'"t":12')
                if is_first_stream.is_set() and chunks >= 6:
                    return

    def _pass_requests(self, client: socket.socket, server: socket.socket, is_first_stream: threading.Event) -> None:
        """Forward the requests of a connection, of which the stream is the last."""
        with self._ending(client, server):
            while data := client.recv(65536):
                if b"/stream?" in data.split(b"\r\n", 1)[0]:
                    self.streams += 1
                    if self.streams == 1:
                        is_first_stream.set()
                server.sendall(data)

    @staticmethod
    @contextlib.contextmanager
    def _ending(*ends: socket.socket) -> Iterator[None]:
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for end in ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


@pytest.fixture
def cutting(live_komand: LiveKomand) -> Iterator[Cutting]:
    cutting = Cutting(live_komand.url)
    yield cutting
    cutting.close()


def test_a_client_whose_connection_breaks_has_the_text_once(run: Run, cutting: Cutting) -> None:
    found = run("reconnect", url=cutting.url, text="[[tokens=120 rate=30]]")
    assert cutting.streams >= 2
    assert found["pieces"] == next(
        message["text"] for message in found["seen"] if message["type"] == AgentMessageType.ANSWER
    )
    assert kinds(found["seen"]) == ["QUESTION", "ANSWER", "IDLE"]


def test_a_crash_during_an_answer_ends_with_the_stored_text(
    run: Run, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    found = run("meanwhile", text="[[tokens=60]]", upTo="tok19", meanwhile=lambda: live_komand.kill_runs())
    (answer,) = [message for message in found["seen"] if message["type"] == AgentMessageType.ANSWER]
    assert answer["text"] == found["text"] and len(answer["text"].split()) == 60
    assert [message["text"] for message in found["history"]] == ["[[tokens=60]]", answer["text"], ""]
    assert found["history"][-1]["type"] == AgentMessageType.IDLE


def test_a_message_of_another_protocol_has_the_same_answer_in_both(run: Run, live_komand: LiveKomand) -> None:
    key = live_komand.api_key
    threads, events = Client(live_komand.url, access_token=key), []
    thread = threads.open("Both")

    def ask() -> None:
        threads.send(thread, "[[tokens=30 rate=100]]")
        events.extend(threads.stream(thread))

    seen = run("watch", session=str(thread.id), meanwhile=ask)["seen"]
    (answer,) = [message["text"] for message in seen if message["type"] == AgentMessageType.ANSWER]
    assert answer.strip() == text_of(events).strip() and len(answer.split()) == 30


def test_a_message_interrupts_a_busy_agent(run: Run) -> None:
    seen = run("interrupt", text="[[tokens=300 rate=40]]")["seen"]
    assert kinds(seen)[-1] == "IDLE" and kinds(seen).count("IDLE") == 1
    assert acknowledged(seen, "m-2") == 1


def test_a_stop_is_acknowledged_and_the_run_stays_usable(run: Run) -> None:
    found = run("stop", text="[[tokens=300 rate=40]]")
    assert found["seen"][-1]["details"]["ack"] == "stop-1" and found["after"]["status"] == "running"
    assert acknowledged(found["history"], "stop-1") == 1
    assert kinds(found["second"])[-1] == "IDLE"


def test_an_ended_run_closes_its_streams_and_refuses_messages(run: Run) -> None:
    found = run("terminate", text="[[tokens=300 rate=40]]")
    assert kinds(found["seen"])[-1] == "TERMINATED" and found["after"]["status"] == "cancelled"
    assert found["refused"]["status"] == 409


@pytest.mark.parametrize(("decision", "outcome"), [("allow_once", "auto_approved"), ("deny", "denied")])
def test_an_approval_request_is_decided(run: Run, decision: str, outcome: str) -> None:
    found = run("approve", text=WRITE, decision=decision)
    decided = [one["details"] for one in found["seen"] if one["type"] == AgentMessageType.UPDATE]
    assert [one["approval_decision"] for one in decided] == [outcome]
    assert kinds(found["seen"])[-1] == "IDLE" and acknowledged(found["seen"], "m-2") == 1


def test_a_question_is_answered_by_an_option(run: Run) -> None:
    text = '[[tool=ask_user args={"question":"Which?","options":["red","blue"]}]]'
    found = run("question", text=text)
    (messages,) = [one for one in found["seen"] if one["type"] == AgentMessageType.QUESTION]
    assert messages["details"]["request_input_response"]["request_id"] == found["asked"]["details"]["request_id"]
    assert "red" in found["seen"][-2]["text"]


def test_failures_of_tools_and_models_are_shown(run: Run) -> None:
    tool = run("talk", text="[[unknown_tool]]")["seen"]
    assert "failed" in [(message["details"] or {}).get("tool_event") for message in tool if message["type"] == 1]
    assert kinds(run("talk", text="[[status=400]]")["seen"])[-2:] == ["ERROR", "IDLE"]
    work = run("talk", text="[[status=400]]", more={"interactive": False})
    assert (kinds(work["seen"])[-2:], work["after"]["status"]) == (["ERROR", "COMPLETE"], "failed")


def test_a_cited_source_is_sent_with_the_answer(run: Run, model_server: ModelServer) -> None:
    found = run("cite", text=f'[[tool=web_fetch args={{"url":"{model_server.base_url}/models"}}]]')
    assert found["id"] in [one["text"] for one in found["seen"] if one["type"] == AgentMessageType.ANSWER][-1]
    (cited,) = [one["details"]["citations"] for one in found["seen"] if (one["details"] or {}).get("citations")][-1]
    assert (cited["id"], cited["uri"]) == (found["id"], f"{model_server.base_url}/models")


def test_a_run_is_restarted_and_forked(run: Run) -> None:
    found = run("restartAndFork")
    assert found["again"]["id"] == found["run"]["id"] and found["forked"]["forked_from"] == found["run"]["id"]
    assert kinds(found["whole"]).count("TERMINATED") == 1 and kinds(found["seen"])[-1] == "IDLE"
    whole = len(found["whole"])
    assert found["branch"][:whole] == found["whole"] and found["untouched"] == whole


def test_artifacts_go_both_ways(run: Run) -> None:
    found = run("artifacts")
    assert found["listed"] == ["files/a #1 ü.txt"] and found["text"] == "first words" and found["conflict"] == 409
    assert found["shown"][:2] == [200, "other words"] and found["broken"][0] == 403 and found["internal"] == []


def test_errors_have_the_form_that_the_client_expects(run: Run) -> None:
    found = run("errors")
    statuses = {name: problem.get("status") for name, problem in found.items()}
    assert statuses == {
        "unknownRun": 404,
        "unknownAgent": 404,
        "unknownKey": 400,
        "process": 501,
        "analytics": 501,
        "advance": 501,
        "unauthorized": 401,
        "unknownSignal": 400,
    }
    assert found["unknownRun"]["kind"] == "ZenoClientNotFoundError"


def test_runs_are_listed_and_searched(run: Run) -> None:
    found = run("lists")
    assert [page["items"][0]["id"] for page in (found["all"], found["next"])] == [
        found["second"]["id"],
        found["first"]["id"],
    ]
    assert found["renamed"]["title"] == "Gamma" and found["hits"]["hits"][0]["id"] == found["first"]["id"]


def test_a_run_shows_its_insides(run: Run) -> None:
    found = run("inspect", text="what is 17*23?")
    assert set(found["kinds"]) == {"history", "control"} and "calculator" in found["tools"]
    assert found["workstreams"] == {"running": [], "completed": []} and found["children"] == {"runs": []}


def test_the_older_addresses_and_the_socket_work_too(run: Run) -> None:
    found = run("workflows")
    assert acknowledged(found["seen"], "m-2") == 1 and found["posted"] == {"success": True}
    assert found["history"][-1]["text"] == "half way" and found["history"][-1]["ts"] > 10**12
    seen = run("socket")["seen"]
    assert seen[-1]["t"] == AgentMessageType.TERMINATED


def test_a_token_is_issued_for_a_key_with_its_endpoints(run: Run) -> None:
    found = run("tokens")
    assert found["works"] and found["renewed"] == 3 and found["payload"]["endpoints"]["store"]
