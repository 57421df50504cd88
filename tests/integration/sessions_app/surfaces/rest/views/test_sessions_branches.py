"""Editing, regenerating and branches over REST."""

import pytest
from django.utils import timezone

from agents_app.models import Run
from sessions_app.models import Branch, Turn
from sessions_app.surfaces.threads.queries import MessageFilter, list_messages
from tests.support.rest import make_run, make_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def session(caller):
    session = make_session(caller.user)
    for text in ("one", "two"):
        answered(session, make_run(session, end_stored=True, answer=f"Answer to {text}"), text)
    return session


def answered(session, run, text=""):
    turn = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
    if text:
        Turn.objects.create(part=0, role="user", content=text, **turn)
    active = {"branch": session.active_branch, "is_answer": True}
    Turn.objects.create(part=1, role="assistant", content=run.answer, **turn, **active)


def end(session, run_id):
    """End a run as the engine does."""
    session.refresh_from_db()
    Run.objects.filter(pk=run_id).update(
        status="completed", end_stored=True, answer="New answer", ended_at=timezone.now()
    )
    answered(session, Run.objects.get(pk=run_id))


def history(caller, session, query=""):
    answer = caller.get(f"sessions/{session.id}/history{query}")
    assert answer.meta["total"] == len(answer.data)
    return [turn["content"] for turn in answer.data]


def test_an_edit_over_rest_begins_a_branch_and_the_first_path_can_be_selected_again(caller, session):
    first, second = Run.objects.order_by("ordinal")
    body = {"runId": str(second.id), "text": "zwei"}
    accepted = caller.post(f"sessions/{session.id}/edit", body, Idempotency_Key="k")
    assert accepted.status == 202 and accepted.data["sessionId"] == session.key
    again = caller.post(f"sessions/{session.id}/edit", body, Idempotency_Key="k")
    assert again.data == accepted.data
    end(session, accepted.data["runId"])
    assert history(caller, session) == ["one", "Answer to one", "zwei", "New answer"]
    assert history(caller, session, "?branch=0") == ["one", "Answer to one", "two", "Answer to two"]
    listed = caller.get(f"sessions/{session.id}/branches").data
    assert [(one["branch"], one["parentBranch"], one["isActive"]) for one in listed] == [(0, None, False), (1, 0, True)]
    assert [(one["runId"], one["replacesRunId"]) for one in listed] == [
        (str(first.id), None),
        (accepted.data["runId"], str(second.id)),
    ]
    selected = caller.post(f"sessions/{session.id}/branches", {"branch": 0})
    assert selected.status == 200 and [one["isActive"] for one in selected.data] == [True, False]
    assert history(caller, session) == ["one", "Answer to one", "two", "Answer to two"]
    assert caller.get(f"sessions/{session.id}/history?branch=5").status == 404
    assert caller.post(f"sessions/{session.id}/branches", {"branch": 5}).status == 404


def test_the_last_answer_is_regenerated_unless_another_is_named(caller, session):
    accepted = caller.post(f"sessions/{session.id}/regenerate")
    assert accepted.status == 202 and Branch.objects.get().replaces == 1
    assert Turn.objects.get(run_id=accepted.data["runId"]).content == "two"
    busy = caller.post(f"sessions/{session.id}/regenerate", {"runId": str(Run.objects.order_by("ordinal")[0].id)})
    assert (busy.status, busy.meta["code"]) == (409, "run_busy")
    assert caller.post(f"sessions/{session.id}/branches", {"branch": 0}).meta["code"] == "run_busy"
    assert caller.post(f"sessions/{session.id}/branches", {"branch": 1}).status == 200, "it is selected already"


def test_what_cannot_be_replaced_is_refused_with_a_reason(caller, session):
    run_id = str(Run.objects.first().id)
    path = f"sessions/{session.id}/edit"
    assert caller.post(path, {"runId": run_id, "text": " "}).meta["code"] == "text_required"
    assert caller.post(path, {"text": "x"}).status == 400
    other = make_run(make_session(caller.user, key=f"WebChat:default:{caller.user.pk}:2"), end_stored=True)
    assert caller.post(path, {"runId": str(other.id), "text": "x"}).status == 404
    empty = make_session(caller.user, key=f"WebChat:default:{caller.user.pk}:3")
    assert caller.post(f"sessions/{empty.id}/regenerate").meta["code"] == "no_message"
    assert not Branch.objects.exists()


def test_other_surfaces_list_the_active_branch(caller, session):
    accepted = caller.post(f"sessions/{session.id}/edit", {"runId": str(Run.objects.get(ordinal=0).id), "text": "eins"})
    end(session, accepted.data["runId"])
    messages, count = list_messages(session, MessageFilter(limit=10, offset=0, newest_first=False))
    assert [message.text for message in messages] == ["eins", "New answer"] and count == 2
