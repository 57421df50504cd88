"""Servers that ask the person of a run: durably, within limits, and not where nobody answers."""

import json
import signal
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp.client import Client

from agents_app import services
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunOptions, RunStatus, WaitingOn
from audit_app.models import AuditEntry
from tests.support.engine import EngineRig, until
from tests.support.live_server import ROOT
from tests.support.mcp import process_of
from tools_app import selectors
from tools_app.executions import runner
from tools_app.mcp_client import connection, discovery, servers
from tools_app.models import InputRequest, ToolExecution
from tools_app.types import ToolCall
from tools_app.types.questions import InputStatus, InputView

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


class Asking:
    """An agent whose model calls one tool of the asking server. ledger: what reached the server's tools."""

    def __init__(self, idle: EngineRig, folder: Path) -> None:
        self.idle, self._ledger = idle, folder / "ledger"
        environment = {"PYTHONPATH": str(ROOT), "LEDGER": str(self._ledger)}
        arguments = ["-m", "tests.fakes.mcp.inquirer"]
        fields = {"command": sys.executable, "arguments": arguments, "environment": environment, "connect_seconds": 30}
        self.server = servers.add_server(name="shop", default_risk="low", **fields)
        discovery.refresh(self.server)

    @property
    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._ledger.read_text().splitlines()] if self._ledger.exists() else []

    def begin(self, tool: str, run: RunOptions | None = None, **arguments: Any) -> Any:
        call = ToolCall("c1", f"mcp__shop__{tool}", json.dumps(arguments))
        self.idle.agent(Reply(tool_calls=(call,)), Reply(("Done.",)))
        if self.idle.engine is None:
            self.idle.start()
        self.accepted = self.idle.send("act", **({"run": run} if run else {}))
        return self.accepted

    def asked(self) -> InputView:
        return until(lambda: selectors.find_question(self.accepted.session_id), 30)

    def answer(self, text: str) -> None:
        self.idle.send(text)

    def result(self) -> ToolExecution:
        transcript = self.idle.wait(self.accepted.run_id, 30)
        assert transcript.run.status is RunStatus.COMPLETED
        return ToolExecution.objects.get()

    def said(self) -> str:
        return str(json.loads(self.result().output or "{}")["result"])


@pytest.fixture
def asking(idle: EngineRig, tmp_path: Path) -> Asking:
    return Asking(idle, tmp_path)


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections negotiate the older revision."""
    monkeypatch.setattr(connection, "Client", partial(Client, mode="legacy"))


def test_a_call_waits_for_the_answer_as_a_row(asking):
    asking.begin("greet")
    question = asking.asked()
    assert "The MCP server shop asks" in question.questions[0].text
    assert "“What is your name?”" in question.questions[0].text
    row, run = ToolExecution.objects.get(), Run.objects.get()
    assert (row.status, row.owner, row.renudge_at) == ("Pending", None, None)
    assert (run.status, run.waiting_on) == (RunStatus.WAITING, WaitingOn.INPUT)
    assert "state-of-greet" not in InputRequest.objects.get().state_sealed
    asking.answer("Ada")
    assert asking.said() == "Hello, Ada!"
    assert [seen["action"] for seen in asking.ledger] == [None, "accept"]
    assert asking.ledger[1]["state"] == "state-of-greet"
    assert AuditEntry.objects.filter(action="InputRequested").count() == 1


def test_the_answer_counts_in_another_process_and_once(asking):
    asking.begin("greet")
    asking.asked()
    asking.idle.engine.stop()
    asking.idle.engine = None
    asking.answer("Ada")
    assert InputRequest.objects.get().status == InputStatus.ANSWERED
    # The server of the first process had its own key for its state; what it said is kept.
    asking.idle.start()
    row = until(lambda: ToolExecution.objects.filter(completed_at__isnull=False).first(), 30)
    assert row.attempts == 2 and len(asking.ledger) >= 1


def test_a_late_nudge_does_not_start_a_call_that_waits(asking):
    asking.begin("greet")
    asking.asked()
    assert runner.claim(ToolExecution.objects.get().id, uuid4()) is None
    asking.answer("Ada")
    assert asking.said() == "Hello, Ada!"


@pytest.mark.parametrize(("reply", "action"), [("decline", "decline"), ("/decline", "decline")])
def test_a_refusal_is_told_to_the_server(asking, reply, action):
    asking.begin("greet")
    asking.asked()
    asking.answer(reply)
    assert asking.said() == f"No name: {action}"


def test_a_question_that_expires_is_cancelled_at_the_server(asking):
    asking.begin("greet")
    asking.asked()
    InputRequest.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert asking.said() == "No name: cancel"
    assert InputRequest.objects.get().status == InputStatus.EXPIRED


def test_an_unattended_run_cancels_at_once(asking):
    asking.begin("greet", run=RunOptions(is_unattended=True))
    assert asking.said() == "No name: cancel"
    assert InputRequest.objects.get().status == InputStatus.CANCELLED


def test_rounds_fields_and_a_reply_that_does_not_fit(asking):
    asking.begin("order")
    form = asking.asked()
    assert [question.labels for question in form.questions] == [("Small", "Medium", "Decline"), (), ("Yes", "No")]
    asking.answer("Medium\n7\nyes")
    again = until(lambda: (found := asking.asked()).id != form.id and found, 30)
    assert again.questions[0].text.startswith("7 is not between 1 and 5.")
    asking.answer("2\n-\n-")
    sure = until(lambda: (found := asking.asked()).id not in (form.id, again.id) and found, 30)
    assert "'size': 'm'" in sure.questions[0].text and sure.questions[0].labels == ("Accept", "Decline")
    asking.answer("Accept")
    assert asking.said() == 'accept {"size": "m", "count": 2}'


def test_a_link_is_shown_with_its_host(asking):
    asking.begin("link")
    [question] = asking.asked().questions
    assert "open a page of pay.example.com" in question.text and "https://pay.example.com/42" in question.text
    asking.answer("I have opened it")
    assert asking.said() == "page: accept"


def test_an_error_that_demands_a_link_makes_the_call_again(asking, older):
    asking.begin("link")
    assert "https://pay.example.com/42" in asking.asked().questions[0].text
    asking.answer("1")
    assert asking.said() == "paid" and len(asking.ledger) == 2


def test_a_call_of_the_older_revision_waits_in_its_process(asking, older):
    asking.begin("greet")
    asking.asked()
    assert ToolExecution.objects.get().status == "Running"
    assert Run.objects.get().waiting_on == WaitingOn.INPUT
    asking.answer("Ada")
    assert asking.said() == "Hello, Ada!"
    assert [seen.get("action") for seen in asking.ledger] == [None, "accept"]


def test_a_question_of_the_older_revision_that_expires_is_cancelled_at_the_server(asking, older):
    asking.begin("greet")
    question, row = asking.asked(), ToolExecution.objects.get()
    assert question.expires_at <= row.started_at + timedelta(seconds=row.timeout_seconds + 1)
    InputRequest.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert asking.said() == "No name: cancel"


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("rounds", "it asked more than 10 times"),
        ("state", "its state has more than 64 KB"),
        ("questions", "it asked 9 questions at once"),
        ("nested", "inner is neither a text"),
        ("sampling", "'sampling/createMessage', which is not offered"),
    ],
)
def test_a_server_that_asks_too_much_ends_its_call(asking, how, problem):
    asking.begin("flood", how=how)
    row = asking.result()
    assert problem in (row.error or "") and not InputRequest.objects.exists()


def test_a_server_of_the_older_revision_that_asks_on_and_on_is_stopped(asking, older):
    asking.begin("flood", how="asks")
    answered: set[Any] = set()
    while len(answered) < 10:
        question = until(lambda: (found := asking.asked()).id not in answered and found, 30)
        answered.add(question.id)
        asking.answer("Ada")
    assert "it asked more than 10 times" in (asking.result().error or "")


def test_a_server_that_hangs_after_the_answer_is_left_at_the_time_limit(asking):
    asking.begin("hang")
    asking.asked()
    ToolExecution.objects.update(timeout_seconds=1)
    asking.answer("Ada")
    assert asking.result().status == "TimedOut"


def test_a_cancelled_run_withdraws_the_question(asking):
    asking.begin("greet")
    asking.asked()
    services.cancel_run(asking.accepted.run_id, reason="Enough.")
    assert asking.idle.wait(asking.accepted.run_id).run.status is RunStatus.CANCELLED
    assert InputRequest.objects.get().status == InputStatus.CANCELLED


def test_a_server_over_http_that_hangs_does_not_hold_up_the_run(asking):
    with process_of("-m", "tests.fakes.mcp.inquirer", transport="") as (url, process):
        servers.change_server(asking.server, transport="streamable_http", command="", arguments=[], url=f"{url}/mcp")
        asking.begin("greet")
        asking.asked()
        process.send_signal(signal.SIGSTOP)
        ToolExecution.objects.update(timeout_seconds=1)
        asking.answer("Ada")
        assert asking.result().status == "TimedOut"
