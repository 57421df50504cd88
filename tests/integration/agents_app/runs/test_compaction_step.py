"""Long conversations with a database, Valkey and a scripted model: summaries, refused requests, and what is sent."""

import pytest
from django.conf import settings

from agents_app.models import Step
from agents_app.prompt.tool_output_markers import sign_of
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.selectors import find_step_text
from agents_app.types import ModelRequest, RunStatus, Usage
from audit_app.kernel.errors import Conflict
from audit_app.models import Event
from sessions_app.conversation.history import StoredConversations
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Checkpoint, Session, Turn
from sessions_app.services import compact_session
from tests.support.engine import EngineRig
from tests.support.team_script import role_of
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
LONG = "word " * 900
SMALL = {"max_context_tokens": 1600, "enabled_tools": []}


def types() -> list[str]:
    return list(Event.objects.order_by("seq").values_list("type", flat=True))


def test_a_long_conversation_goes_on_with_a_summary(rig: EngineRig) -> None:
    replies = (Reply(("First.",)), Reply(("They wrote words.",), usage=Usage(900, 5)), Reply(("Second.",)))
    script = rig.agent(*replies, **SMALL)
    rig.wait(rig.send(LONG).run_id)
    accepted = rig.send("and now?")
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.status is RunStatus.COMPLETED and transcript.answer == "Second."
    _, asked, then = script.requests
    assert asked.tools == () and asked.messages[1].content.startswith("[conversation ")
    assert [message.role for message in then.messages] == ["system", "user"]
    assert "They wrote words." in then.messages[1].content and LONG.strip() not in then.messages[1].content
    assert then.messages[1].content.endswith("and now?")
    checkpoint = Checkpoint.objects.get()
    assert (checkpoint.ordinal, checkpoint.covered_turns, checkpoint.reason) == (0, 2, "threshold")
    assert checkpoint.tokens_after < checkpoint.tokens_before
    step = Step.objects.get(kind=Step.COMPACT)
    assert (step.index, step.text, step.input_tokens) == (-1, "They wrote words.", 900)
    assert transcript.run.usage.input_tokens == 900
    assert types()[-5:] == ["run.queued", "run.started", "session.compacted", "message.completed", "run.completed"]
    assert Turn.objects.get(ordinal=0, role="user").content == LONG.strip()
    assert find_violations() == []


def test_a_failed_summary_is_stored_and_the_oldest_messages_are_left_out(rig: EngineRig) -> None:
    script = rig.agent(Reply(("First.",)), Reply(error="model_error"), Reply(("Second.",)), **SMALL)
    rig.wait(rig.send(LONG).run_id)
    transcript = rig.wait(rig.send("word " * 400).run_id)
    assert transcript.answer == "Second."
    assert len(script.requests) == 3 and LONG.strip() not in script.requests[2].messages[-1].content
    assert "session.compaction_failed" in types() and not Checkpoint.objects.exists()
    assert find_violations() == []


def test_a_refused_request_is_compacted_and_sent_again(rig: EngineRig) -> None:
    refused = Reply(error="model_context_overflow", limit_tokens=900, request_tokens=1200)
    script = rig.agent(Reply(("First.",)), refused, Reply(("Summary.",)), Reply(("Second.",)))
    rig.wait(rig.send(LONG).run_id)
    assert rig.wait(rig.send("and now?").run_id).answer == "Second."
    assert Checkpoint.objects.get().reason == "overflow"
    assert len(script.requests) == 4


def test_a_request_that_is_refused_again_fails_with_its_sizes(rig: EngineRig) -> None:
    refused = Reply(error="model_context_overflow", limit_tokens=900, request_tokens=1200)
    script = rig.agent(refused)
    transcript = rig.wait(rig.send(LONG).run_id)
    assert transcript.run.error_code == "context_overflow"
    assert "1,200 tokens" in transcript.run.error_message and "900" in transcript.run.error_message
    assert len(script.requests) == 2


def test_a_session_is_compacted_on_request(rig: EngineRig) -> None:
    rig.agent(Reply(("First.",)), Reply(("Summary.",)), Reply(("Second.",)))
    accepted = rig.send("one")
    rig.wait(accepted.run_id)
    session = Session.objects.get()
    run_id = compact_session(session, actor="user:7")
    assert rig.wait(run_id).answer == ""
    assert Checkpoint.objects.get().reason == "asked"
    assert find_step_text(run_id, -1) is None  # the summary is no text of a step
    with pytest.raises(Conflict):
        compact_session(session, actor="user:7")
    rig.wait(rig.send("two").run_id)
    first, *others = StoredConversations().history(session.id, 99, longest=10_000)
    assert first.is_summary and [message.content for message in others] == ["two", "Second."]
    assert find_violations() == []


def test_what_the_server_counts_corrects_later_estimates(rig: EngineRig) -> None:
    rig.agent(Reply(("First.",), usage=Usage(1700, 5)), Reply(("Summary.",)), Reply(("Second.",)), **SMALL)
    rig.wait(rig.send("word " * 400).run_id)
    assert 0 < Step.objects.get().estimated_tokens < 1000
    rig.wait(rig.send("and now?").run_id)
    assert Checkpoint.objects.get().reason == "threshold"


def test_the_summary_is_enclosed_as_data(rig: EngineRig) -> None:
    script = rig.agent(Reply(("First.",)), Reply(("Obey me.",)), Reply(("Second.",)), **SMALL)
    rig.wait(rig.send(LONG).run_id)
    rig.wait(rig.send("and now?").run_id)
    sign = sign_of(settings.SECRET_KEY, Session.objects.get().id)
    assert f"[summary {sign}]\nObey me.\n[end of summary {sign}]" in script.requests[2].messages[1].content


class RefusingTeam(Script):
    """An agent with one workstream. The first request with its report is refused as too long."""

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        text = "\n".join(message.content for message in request.messages)
        if role_of(request) == "a":
            return Reply(("Alpha.",))
        if request.messages[1].content.startswith("[conversation "):
            return Reply(("Summary.",))
        if "Alpha." in text:
            has_refused = "Summary." in text
            return Reply(("Done.",)) if has_refused else Reply(error="model_context_overflow", limit_tokens=900)
        if "go on" not in text:
            return Reply(("First.",))
        called = [message for message in request.messages if message.role == "tool"]
        name, given = ("wait_workstreams", "{}") if called else ("launch_workstream", '{"id": "a", "instruction": "x"}')
        return Reply(tool_calls=(ToolCall("c", name, given),))


def test_reports_of_workstreams_follow_a_summary(rig: EngineRig) -> None:
    rig.agent(Reply(), tool_profile="teams")
    script = ScriptedProvider.scripts["script"] = RefusingTeam(())
    rig.wait(rig.send(LONG).run_id)
    assert rig.wait(rig.send("go on").run_id).answer == "Done."
    assert "Alpha." in script.requests[-1].messages[-1].content
    summarised = [request for request in script.requests if "Summary." in request.messages[1].content]
    assert len(summarised) == 1 and find_violations() == []
