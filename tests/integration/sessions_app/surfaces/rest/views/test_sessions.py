"""Sessions, history and runs over REST."""

import pytest

from agents_app.models import Run
from agents_app.types import RunStatus
from audit_app.models import AuditEntry
from sessions_app.models import Session, Turn
from sessions_app.services import open_session
from tests.support.rest import make_agent, make_execution, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_a_session_is_found_by_raw_and_by_encoded_public_id_and_by_uuid(caller, alice):
    session = make_session(alice)
    spellings = [session.key, session.key.replace(":", "%3A"), session.key.replace(":", "%3a"), str(session.pk)]
    found = [caller.get(f"sessions/{spelling}").data for spelling in spellings]
    assert {data["sessionId"] for data in found} == {f"WebChat:default:{alice.pk}"}


@pytest.mark.parametrize("url", ["a%2Fb", "a%252Fb"])
def test_a_sender_with_a_slash_is_found(caller, alice, url):
    make_session(alice, key="WebChat:default:a%2Fb")
    assert caller.get(f"sessions/WebChat:default:{url}/history").status == 200
    assert caller.get(f"sessions/WebChat:default:{url}").data["sessionId"] == "WebChat:default:a%2Fb"


def test_a_user_with_the_longest_names_may_have_a_session():
    make_agent()
    session = open_session(owner=make_user("bob", first_name="B" * 150, last_name="o" * 150))
    assert session.sender_name == ("B" * 150 + " " + "o" * 49)


def test_a_session_has_exactly_its_fields(caller, alice):
    data = caller.get(f"sessions/{make_session(alice, turns=3).key}").data
    assert (data["channel"], data["accountId"], data["senderId"]) == ("WebChat", "default", str(alice.pk))
    assert (data["agentId"], data["messageCount"]) == ("default", 3)
    assert data["createdAt"].endswith("Z")


def test_lists_come_in_pages_with_a_total(caller, alice):
    for number in range(5):
        make_session(alice, key=f"WebChat:default:{alice.pk}:{number}")
    answer = caller.get("sessions?page=2&pageSize=2")
    assert answer.meta == {"total": 5, "page": 2, "pageSize": 2}
    assert len(answer.data) == 2
    assert caller.get("sessions").meta["pageSize"] == 50
    assert caller.get("sessions?page=9").data == []


@pytest.mark.parametrize("query", ["page=0", "page=x", "pageSize=0", "pageSize=201", "page=99999999999999999999"])
def test_invalid_pages_are_400(caller, query):
    assert caller.get(f"sessions?{query}").status == 400


def test_history_pages_go_back_in_time_and_read_forward(caller, alice):
    key = make_session(alice, turns=5).key
    pages = [
        [turn["content"] for turn in caller.get(f"sessions/{key}/history?pageSize=2&page={n}").data] for n in (1, 2, 3)
    ]
    assert pages == [["turn 3", "turn 4"], ["turn 1", "turn 2"], ["turn 0"]]
    assert caller.get(f"sessions/{key}/history").meta["total"] == 5


def test_max_turns_returns_the_newest(caller, alice):
    key = make_session(alice, turns=60).key
    assert [turn["content"] for turn in caller.get(f"sessions/{key}/history?maxTurns=2").data] == ["turn 58", "turn 59"]
    assert len(caller.get(f"sessions/{key}/history?maxTurns=60").data) == 60
    assert caller.get(f"sessions/{key}/history?maxTurns=0").status == 400


def test_history_shows_tool_turns_and_errors(caller, alice):
    session = make_session(alice)
    run = make_run(session, RunStatus.FAILED)
    common = {"session": session, "run": run, "ordinal": 0, "created_at": session.created_at}
    Turn.objects.create(**common, part=0, role="tool", content="391", tool_call_ids=["e1"])
    Turn.objects.create(
        **common, part=1, role="assistant", state="error", error_code="model_error", error_message="It failed."
    )
    [tool] = caller.get(f"sessions/{session.key}/history").data
    assert caller.get(f"sessions/{session.key}/history").meta["total"] == 1
    tool, answer = caller.get(f"sessions/{session.key}/history?failed=true").data
    assert (tool["role"], tool["content"], tool["toolCallIds"]) == ("tool", "391", ["e1"])
    assert (answer["state"], answer["error"], answer["errorCode"]) == ("error", "It failed.", "model_error")
    assert (answer["toolCallIds"], answer["runId"]) == (None, str(run.pk))


def test_bind_routes_the_session_to_another_agent(caller, alice):
    make_agent("sales-bot")
    key = make_session(alice).key
    assert caller.post(f"sessions/{key}/bind", {"agentId": "sales-bot"}).data["agentId"] == "sales-bot"
    assert Session.objects.get().agent.agent_id == "sales-bot"
    assert AuditEntry.objects.get(action="SessionBound").actor == f"user:{alice.pk}"


def test_bind_to_an_unknown_agent_is_404_and_to_none_is_400(caller, alice):
    key = make_session(alice).key
    assert caller.post(f"sessions/{key}/bind", {"agentId": "nobody"}).status == 404
    assert caller.post(f"sessions/{key}/bind", {}).status == 400


def test_cancel_stops_queued_runs_and_returns_their_number(caller, alice):
    session = make_session(alice)
    make_run(session, RunStatus.QUEUED)
    assert caller.post(f"sessions/{session.key}/cancel").data == {"cancelled": 1}
    assert caller.post(f"sessions/{session.key}/cancel").data == {"cancelled": 0}
    assert Run.objects.get().status == RunStatus.CANCELLED


def test_cancel_of_a_stale_run_stops_nothing_else(caller, alice):
    session = make_session(alice)
    old, _ = make_run(session), make_run(session, RunStatus.QUEUED)
    assert caller.post(f"sessions/{session.key}/cancel", {"runId": str(old.pk)}).data == {"cancelled": 0}
    assert caller.post(f"sessions/{session.key}/cancel", {"runId": "x"}).status == 400


def test_delete_hides_the_session(caller, alice):
    key = make_session(alice).key
    assert caller.delete(f"sessions/{key}").status == 200
    assert caller.get("sessions").meta["total"] == 0


def test_a_run_shows_its_state_answer_tools_and_usage(caller, alice):
    session = make_session(alice)
    run = make_run(session, answer="42", input_tokens=7, output_tokens=2)
    execution = make_execution(run, status="Completed")
    data = caller.get(f"runs/{run.pk}").data
    assert (data["status"], data["text"], data["error"]) == ("completed", "42", None)
    usage = {"inputTokens": 7, "outputTokens": 2, "cost": None, "models": [], "fallback": None, "withWorkstreams": None}
    assert data["usage"] == usage
    assert data["toolCallIds"] == [str(execution.pk)]
    assert data["sessionId"] == session.key


def test_an_open_run_has_no_text_yet(caller, alice):
    run = make_run(make_session(alice), RunStatus.QUEUED)
    data = caller.get(f"runs/{run.pk}").data
    assert (data["status"], data["text"], data["endedAt"]) == ("queued", None, None)


def test_a_failed_run_is_retried_and_a_completed_one_is_not(caller, alice):
    session = make_session(alice)
    failed, good = make_run(session, RunStatus.FAILED), make_run(session)
    answer = caller.post(f"runs/{failed.pk}/retry")
    assert answer.status == 202
    assert Run.objects.get(pk=answer.data["runId"]).status == RunStatus.QUEUED
    assert caller.post(f"runs/{good.pk}/retry").status == 409


def test_a_retry_counts_as_a_message(caller, alice, settings):
    settings.KOMAND_CHAT_LIMIT = 1
    session = make_session(alice)
    runs = [make_run(session, RunStatus.FAILED) for _ in range(2)]
    assert [caller.post(f"runs/{run.pk}/retry").status for run in runs] == [202, 429]


def test_a_tool_execution_has_exactly_its_fields(caller, alice):
    session = make_session(alice)
    done = make_execution(
        make_run(session),
        status="Completed",
        output='{"text": "hi"}',
        started_at=session.created_at,
        completed_at=session.created_at,
    )
    data = caller.get(f"tools/executions/{done.pk}").data
    request = {"toolName", "agentId", "sessionId", "parameters", "timeout", "requestedAt"}
    result = {"executionId", "status", "output", "error", "completedAt", "duration", "receipt", "origins"}
    assert set(data) == request | result
    assert (data["toolName"], data["sessionId"], data["timeout"]) == (done.tool, session.key, "00:01:00")
    assert (data["executionId"], data["status"], data["output"]) == (str(done.pk), "Completed", '{"text": "hi"}')
    assert (data["error"], data["duration"]) == (None, "00:00:00")


def test_the_parameters_of_an_execution_hide_secrets(caller, alice):
    arguments = {"url": "https://example.org/", "password": "hunter2-hunter2"}
    execution = make_execution(make_run(make_session(alice)), arguments=arguments)
    data = caller.get(f"tools/executions/{execution.pk}").data
    assert data["parameters"]["url"] == arguments["url"] and "hunter2" not in str(data)


def test_cancelling_an_execution_twice_gives_the_same_answer(caller, alice):
    execution = make_execution(make_run(make_session(alice), RunStatus.QUEUED))
    first, second = (caller.post(f"tools/executions/{execution.pk}/cancel") for _ in range(2))
    assert first.status == second.status == 200
    assert first.data == second.data
    assert first.data["status"] == "Cancelled"
