"""`manage.py evaluate` with real runs and a scripted model."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from agents_app import services
from agents_app.models import Agent, DailyUsage, ModelProvider, Run
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.types import ModelRequest, Usage
from audit_app.models import AuditEntry
from sessions_app.evaluation.cases import read_cases
from sessions_app.models import Session
from tests.support.engine import EngineRig
from tools_app.models import Memory
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

CASES = """format: 1
cases:
- name: greeting
  input: hello
  expect: {contains: Hello}
- name: farewell
  input: bye
  expect: {contains: Goodbye}
"""


class Answers(Script):
    """A script that replies by the newest message, so that cases may run at the same time."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        super().__init__(tuple(replies.values()))
        self._by_text = replies

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        prompt = request.messages[0].content
        written = [message.content for message in request.messages if message.role == "user"][-1]
        is_answered = request.messages[-1].role == "tool"
        found = [reply for text, reply in self._by_text.items() if text in written or text in prompt]
        return Reply(("Done.",)) if is_answered or not found else found[0]


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    User.objects.create_superuser("op")
    idle.agent()


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES)
    return file


def play(replies: dict[str, Reply]) -> Answers:
    script = ScriptedProvider.scripts["script"] = Answers(replies)
    return script


def evaluate(*arguments: object, code: int = 0) -> str:
    """Return what the command writes. code: with which it ends."""
    out, given = StringIO(), [*map(str, arguments), "--user", "op"]
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("evaluate", *given, stdout=out, stderr=StringIO())
        assert ended.value.code == code
    else:
        call_command("evaluate", *given, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_cases_are_run_checked_and_cleared_away(rig: EngineRig, cases: Path) -> None:
    play({"hello": Reply(("Hello!",), usage=Usage(10, 2)), "bye": Reply(("Farewell.",), usage=Usage(10, 2))})
    shown = evaluate("default", cases, code=1)
    lines = [line.split() for line in shown.splitlines()]
    assert ["greeting", "pass"] in lines and ["farewell", "FAIL"] in lines
    assert "1 of 2 (50 %)" in shown and "20 / 4" in shown
    assert shown.splitlines()[-1].endswith("farewell: the answer lacks 'Goodbye'")
    assert not Session.objects.filter(deleted_at=None).exists()
    assert set(Run.objects.values_list("actor", flat=True)) == {"system"}
    play({"hello": Reply(("Hello!",)), "bye": Reply(("Goodbye.",))})
    report = json.loads(evaluate("default", cases, "--json", "--keep"))
    assert [case["answer"] for case in report["versions"][0]["cases"]] == ["Hello!", "Goodbye."]
    assert Session.objects.filter(deleted_at=None).count() == 2


def test_a_version_is_compared_with_another(rig: EngineRig, cases: Path) -> None:
    agent = Agent.objects.get(agent_id="default")
    services.update_agent(agent, system_prompt="Version ONE.")
    before = agent.version
    services.update_agent(agent, system_prompt="Version TWO.")
    play({"ONE": Reply(("Hello and Goodbye.",)), "TWO": Reply(("Hello.",))})
    shown = evaluate("default", cases, "--against", before, code=1)
    assert f"version {agent.version}" in shown.splitlines()[0] and f"version {before}" in shown.splitlines()[0]
    assert ["farewell", "FAIL", "pass"] in [line.split() for line in shown.splitlines()]
    assert shown.splitlines()[-1] == f"Worse than version {before}: farewell."
    better = evaluate("default", cases, "--with", before, "--against", agent.version)
    assert better.splitlines()[-1] == f"Worse than version {agent.version}: nothing."


def test_tools_change_nothing_unless_it_is_allowed(rig: EngineRig, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("format: 1\ncases: [{name: a, input: note it, expect: {calls: memory_store, contains: Done}}]\n")
    call = ToolCall("1", "memory_store", '{"key": "colour", "text": "blue"}')
    Agent.objects.update(autonomy="full")
    play({"note": Reply(("Noting.",), tool_calls=(call,))})
    assert "pass" in evaluate("default", file)
    assert not Memory.objects.exists()
    evaluate("default", file, "--allow-changes")
    assert Memory.objects.get().actor == "system"
    Agent.objects.update(autonomy="supervised", always_ask=["memory_store"])
    assert "the run waits for an approval" in evaluate("default", file, "--allow-changes", code=1)


def test_failures_of_runs_fail_their_cases(rig: EngineRig, cases: Path) -> None:
    play({"hello": Reply(error="model_bad_request"), "bye": Reply(("Goodbye.",))})
    shown = evaluate("default", cases, code=1)
    assert "greeting: the run failed: The scripted model failed." in shown
    play({"hello": Reply(hangs=True), "bye": Reply(("Goodbye.",))})
    assert "greeting: there is no answer after 0.5 seconds" in evaluate("default", cases, "--timeout", 0.5, code=1)
    rig.drops = lambda task: True
    assert "no worker has taken the run" in evaluate("default", cases, "--timeout", 0.1, code=1)


def test_a_model_judges_by_a_criterion(rig: EngineRig, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("format: 1\ncases: [{name: a, input: hello, reference: Hi., expect: {judge: It is polite.}}]\n")
    ModelProvider.objects.create(name="judging", kind="scripted")
    verdict = Reply(('{"passes": false, "reason": "it is rude"}',), usage=Usage(30, 5))
    script = play({"You check an": verdict, "hello": Reply(("Go away.",))})
    assert "a: the judge: it is rude" in evaluate("default", file, "--judge", "judging/script", code=1)
    judged = DailyUsage.objects.get(provider="judging")
    assert (judged.agent_id, judged.model, judged.input_tokens, judged.calls) == ("default", "script", 30, 1)
    asked = script.requests[-1].messages[-1].content
    assert "Answer: Go away." in asked and "A good answer: Hi." in asked and asked.endswith("Criterion: It is polite.")
    play({"You check an": Reply(('{"passes": true, "reason": ""}',)), "hello": Reply(("Hi.",))})
    assert "1 of 1" in evaluate("default", file)
    for odd, fault in ((Reply(("Yes.",)), "no verdict"), (Reply(error="model_auth"), "the judge failed")):
        play({"You check an": odd, "hello": Reply(("Hi.",))})
        assert fault in evaluate("default", file, code=1)


def test_cases_are_made_from_the_first_messages_of_sessions(rig: EngineRig, cases: Path, tmp_path: Path) -> None:
    play({"capital": Reply(("Paris.",)), "key": Reply(("No.",))})
    rig.wait(rig.send("The capital of France?").run_id)
    rig.wait(rig.send("And my key sk-abcdefghijklmnop1234?").run_id)  # the second message of its session
    evaluate("default", cases, "--keep", code=1)
    written = evaluate("default", "--from-runs", 10)
    assert written.startswith("# From real conversations: they may contain personal data.")
    [case] = read_cases(written)
    assert (case.messages, case.reference) == (("The capital of France?",), "Paris.") and case.judge
    assert AuditEntry.objects.filter(action="EvaluationCasesExported").count() == 1
    file = tmp_path / "made.yaml"
    file.write_text(written)
    play({"You check an": Reply(('{"passes": true, "reason": ""}',)), "capital": Reply(("It is Paris.",))})
    assert "1 of 1" in evaluate("default", file)


def test_what_cannot_be_evaluated_is_refused(rig: EngineRig, cases: Path) -> None:
    for arguments, error in (
        (("nobody", cases), "There is no agent"),
        (("default",), "Give a file"),
        (("default", cases.parent / "none.yaml"), "cannot be read"),
        (("default", cases, "--user", "op", "--against", 99), "no version 99"),
        (("default", cases), "Give the owner"),
        (("default", cases, "--user", "nobody"), "no active user"),
        (("default", cases, "--user", "op", "--judge", "nobody"), "no model provider"),
    ):
        with pytest.raises(CommandError, match=error):
            call_command("evaluate", *map(str, arguments), stdout=StringIO(), stderr=StringIO())
    assert not Session.objects.exists()
