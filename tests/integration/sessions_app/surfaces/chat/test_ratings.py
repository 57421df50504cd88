"""Ratings and details of answers on the chat page, and the cost of a run over REST."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Run, Step
from sessions_app.models import Feedback, Turn
from tests.support.rest import RestCaller, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def user(valkey: object) -> User:
    return make_user("ada")


@pytest.fixture
def page(user: User) -> Client:
    client = Client(headers={"HX-Request": "true"})
    client.force_login(user)
    return client


@pytest.fixture
def run(user: User) -> Run:
    session = make_session(user)
    run = make_run(session, input_tokens=1500, output_tokens=200, started_at=timezone.now())
    answer: dict[str, Any] = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
    Turn.objects.create(**answer, part=0, role="user", content="A question")
    Turn.objects.create(**answer, part=1, role="assistant", content="An answer", is_answer=True)
    now = timezone.now()
    Step.objects.create(
        run=run, index=0, fence=1, text="An answer", finish_reason="stop", model="fake-1", started_at=now, ended_at=now
    )
    return run


def rate(page: Client, run: Run, **fields: str) -> str:
    response = page.post(f"/chat/runs/{run.pk}/feedback", fields)
    assert response.status_code == 200
    return response.content.decode()


def test_an_answer_is_rated_once_changed_commented_and_taken_back(page: Client, run: Run, user: User) -> None:
    assert "What was good?" in rate(page, run, rating="UP")
    assert "What was wrong?" in rate(page, run, rating="DOWN")
    assert "It is too short" in rate(page, run, rating="DOWN", comment="It is too short")
    [row] = Feedback.objects.all()
    assert (row.user, row.rating, row.comment, row.target_id) == (user, "DOWN", "It is too short", run.pk)
    shown = page.get(f"/chat/{run.conversation_id}").content.decode()
    assert "It is too short" in shown and shown.count('aria-pressed="true"') == 1
    rate(page, run, rating="")
    assert not Feedback.objects.exists()


def test_answers_of_others_cannot_be_rated(run: Run) -> None:
    stranger = Client(headers={"HX-Request": "true"})
    stranger.force_login(make_user("eve"))
    assert stranger.post(f"/chat/runs/{run.pk}/feedback", {"rating": "UP"}).status_code == 404
    assert stranger.get(f"/chat/runs/{run.pk}/details").status_code == 404
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("fields", [{"rating": "GREAT"}, {"rating": "UP", "comment": "a" * 4001}])
def test_an_invalid_rating_is_refused(page: Client, run: Run, fields: dict[str, str]) -> None:
    assert page.post(f"/chat/runs/{run.pk}/feedback", fields).status_code == 400


def test_the_details_of_an_answer_show_model_and_tokens(page: Client, run: Run) -> None:
    shown = page.get(f"/chat/runs/{run.pk}/details").content.decode()
    assert all(text in shown for text in ("fake-1", "1,500 tokens", "200 tokens"))
    assert "Cost" not in shown  # nobody has set prices


def test_a_run_shows_the_cost_of_its_calls_not_the_present_prices(
    page: Client, run: Run, user: User, settings: Any
) -> None:
    assert RestCaller(user).get(f"runs/{run.pk}").data["usage"] == {
        "inputTokens": 1500,
        "outputTokens": 200,
        "cost": None,
        "models": ["fake-1"],
        "fallback": None,
        "withWorkstreams": None,
    }
    Run.objects.filter(pk=run.pk).update(cost_nanos=5_000_000, priced_calls=1)
    type(run.agent.provider).objects.update(input_price=9, output_price=9)
    settings.KOMAND_CURRENCY = "EUR"
    assert RestCaller(user).get(f"runs/{run.pk}").data["usage"]["cost"] == 0.005
    assert "0.005 EUR" in page.get(f"/chat/runs/{run.pk}/details").content.decode()
