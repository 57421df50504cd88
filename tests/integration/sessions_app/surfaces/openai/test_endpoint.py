"""Stored responses: the question of a run that waits for its user."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Run
from agents_app.types import RunStatus
from sessions_app.surfaces.openai import endpoint, responses
from tests.support.rest import make_agent, make_execution, make_run, make_session, make_user
from tools_app.models import InputRequest

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def ask(run: Run, text: str) -> None:
    """Store an open question of a run."""
    now = timezone.now()
    InputRequest.objects.create(
        execution=make_execution(run, tool="ask_user"),
        run_id=run.pk,
        session_id=run.conversation_id,
        question=text,
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )


def shown(run: Run) -> dict[str, Any]:
    context, stored = endpoint.load(run.pk)
    return responses.of_transcript(context, *stored)


def test_a_response_shows_the_question_of_its_run_and_none_of_another() -> None:
    make_agent()
    session = make_session(make_user("ada"))
    earlier = make_run(session)
    on_its_own = make_run(session, RunStatus.WAITING, waiting_on="input", parent=earlier, root=earlier)
    ask(on_its_own, "Which colour?")
    waiting = make_run(session, RunStatus.WAITING, waiting_on="children")
    assert shown(waiting)["status"] == "in_progress" and shown(waiting)["output"] == []
    InputRequest.objects.all().delete()
    ask(make_run(session, RunStatus.WAITING, waiting_on="input", parent=waiting, root=waiting), "Which size?")
    [item] = shown(waiting)["output"]
    assert (shown(waiting)["status"], item["content"][0]["text"]) == ("completed", "Which size?")
