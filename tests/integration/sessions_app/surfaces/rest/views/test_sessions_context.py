"""Compacting a session, pinning messages and the use of the context over REST, and TriggerCheckpoint."""

from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Agent, Run
from audit_app.models import Event
from sessions_app.conversation import pins
from sessions_app.conversation.history import StoredConversations
from sessions_app.models import Checkpoint, Session, Turn
from tests.support.rest import RestCaller, make_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
PARTS = ("system", "tools", "summary", "pinned", "history", "newest")


@pytest.fixture
def session(caller: RestCaller) -> Session:
    """Return a session with four messages, the first two of which a summary stands for."""
    session = make_session(caller.user)
    now = timezone.now()
    for ordinal in range(4):
        fields: dict[str, Any] = {"session": session, "ordinal": ordinal, "created_at": now}
        Turn.objects.create(part=0, role="user", content=f"question {ordinal}", **fields)
        Turn.objects.create(part=1, role="assistant", content=f"answer {ordinal}", **fields)
    Session.objects.filter(pk=session.pk).update(next_ordinal=4)
    Checkpoint.objects.create(
        session=session,
        ordinal=1,
        index=0,
        reason="asked",
        summary="Two questions.",
        created_at=now,
        covered_turns=4,
        tokens_before=100,
        tokens_after=50,
        prompt_version="1",
    )
    session.refresh_from_db()
    return session


def turn(session: Session, content: str) -> Turn:
    return Turn.objects.get(session=session, content=content)


def texts(session: Session) -> list[str]:
    return [message.content for message in StoredConversations().history(session.id, 99, longest=100_000)]


def test_the_history_begins_with_the_summary_and_rest_marks_what_it_stands_for(
    caller: RestCaller, session: Session
) -> None:
    assert texts(session) == ["Two questions.", "question 2", "answer 2", "question 3", "answer 3"]
    marks = [(one["content"], one["isSummarised"]) for one in caller.get(f"sessions/{session.id}/history").data]
    assert [content for content, is_summarised in marks if is_summarised] == [
        "question 0",
        "answer 0",
        "question 1",
        "answer 1",
    ]


def test_a_summary_of_another_branch_is_not_used(session: Session) -> None:
    Turn.objects.filter(session=session, ordinal=1).update(is_off_path=True)
    assert "Two questions." not in texts(session)


def test_a_pinned_message_stays_in_full(caller: RestCaller, session: Session) -> None:
    path = f"sessions/{session.id}/pins/{turn(session, 'question 0').id}"
    assert caller("PUT", path).data["isPinned"] is True
    assert caller("PUT", path).status == 200
    assert texts(session)[:3] == ["Two questions.", "question 0", "question 2"]
    assert caller("DELETE", path).data["isPinned"] is False
    assert texts(session)[1] == "question 2"
    assert [event.payload["is_pinned"] for event in Event.objects.filter(type="message.pinned")] == [True, False]
    assert caller("PUT", f"sessions/{session.id}/pins/null,null").status == 404


def test_pinned_messages_have_limits(caller: RestCaller, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "MOST_PINNED", 1)
    first, second = turn(session, "question 0"), turn(session, "answer 0")
    caller("PUT", f"sessions/{session.id}/pins/{first.id}")
    refused = caller("PUT", f"sessions/{session.id}/pins/{second.id}")
    assert (refused.status, refused.meta["code"]) == (409, "too_many_pinned")
    monkeypatch.setattr(pins, "MOST_PINNED", 9)
    Agent.objects.update(max_context_tokens=20)
    refused = caller("PUT", f"sessions/{session.id}/pins/{second.id}")
    assert (refused.status, refused.meta["code"]) == (409, "pinned_too_long")


def test_the_use_of_the_context_is_the_sum_of_its_parts(caller: RestCaller, session: Session) -> None:
    shown = caller.get(f"sessions/{session.id}/context").data
    assert shown["used"] == sum(shown[part] for part in PARTS) and shown["used"] < shown["budget"] < shown["limit"]
    assert all(shown[part] > 0 for part in PARTS if part not in ("tools", "pinned"))
    assert shown["checkpoint"]["summary"] == "Two questions." and shown["checkpoint"]["coveredUntil"] == 1


def test_a_session_is_compacted_by_a_run_that_answers_nothing(caller: RestCaller, session: Session) -> None:
    accepted = caller.post(f"sessions/{session.id}/compact")
    assert accepted.status == 202
    run = Run.objects.get(pk=accepted.data["runId"])
    assert (run.user_turn_count, run.options) == (0, {"compacts_only": True})
    assert caller.post(f"sessions/{session.id}/compact").data == accepted.data
    assert Run.objects.count() == 1


def test_an_empty_session_has_nothing_to_compact(caller: RestCaller) -> None:
    refused = caller.post(f"sessions/{make_session(caller.user).id}/compact")
    assert (refused.status, refused.meta["code"]) == (409, "nothing_to_compact")
