"""Feedback in the admin: rating, user and message."""

from typing import Any

import pytest
from django.utils import timezone

from sessions_app.models import Feedback, Session, Turn

pytestmark = pytest.mark.one_database

PAGES = "/admin/sessions_app/feedback/"


def opinion(run: Any, target: Any, kind: str = "MESSAGE", **fields: Any) -> Feedback:
    session, now = Session.objects.get(pk=run.conversation_id), timezone.now()
    return Feedback.objects.create(
        user=session.owner,
        session=session,
        target_type=kind,
        target_id=target,
        created_at=now,
        updated_at=now,
        **fields,
    )


def test_opinions_are_filtered_by_rating(pages: Any, make_run: Any, django_assert_max_num_queries: Any) -> None:
    for number in range(3):
        run = make_run(text=f"question {number}")
        opinion(run, run.conversation_id, "THREAD", rating="UP", comment=f"liked {number}")
        opinion(run, run.pk, rating="DOWN", reason="OTHER", comment="<script>alert(1)</script>\u202e")
    with django_assert_max_num_queries(10):
        every = pages.get(PAGES).content.decode()
    assert every.count("question ") >= 6 and "liked 2" in every and "<script>alert(1)" not in every
    down = pages.get(PAGES, {"rating__exact": "DOWN"}).content.decode()
    assert "alert(1)" in down and "liked" not in down


def test_an_opinion_leads_to_the_message_it_is_about(pages: Any, make_run: Any) -> None:
    run = make_run()
    answer = Turn.objects.create(
        session_id=run.conversation_id,
        run=run,
        ordinal=0,
        part=3,
        role="assistant",
        content="It is 391.",
        is_answer=True,
        created_at=timezone.now(),
    )
    of_answer = opinion(run, run.pk, rating="UP")
    question = Turn.objects.get(session_id=run.conversation_id, role="user")
    of_question = opinion(run, question.pk, rating="DOWN")
    for row, turn in ((of_answer, answer), (of_question, question)):
        html = pages.get(f"{PAGES}{row.pk}/change/").content.decode()
        assert turn.content in html
        assert f"/admin/sessions_app/session/{run.conversation_id}/change/?before=0.{turn.part + 1}" in html


def test_feedback_is_read_only_and_needs_a_permission(pages: Any, staff: Any, make_run: Any) -> None:
    run = make_run()
    row = opinion(run, run.pk, rating="UP")
    assert pages.post(f"{PAGES}{row.pk}/change/", {"rating": "DOWN"}).status_code == 403
    assert staff("sessions_app.view_session").get(PAGES).status_code == 403
    reader = staff("sessions_app.view_feedback", name="reader").get("/admin/sessions_app/feedback/").content.decode()
    assert f'href="{PAGES}"' in reader  # in the menu, too
