"""The page of a long chat: the line of a summary, pins, and the gauge of the context."""

import pytest
from django.test import Client
from django.utils import timezone

from agents_app.models import Run
from sessions_app.models import Checkpoint, Session, Turn
from sessions_app.surfaces.chat import queries
from sessions_app.surfaces.chat.fragments import answer_frame
from tests.support.rest import make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def session() -> Session:
    session = make_session(make_user("alice"))
    run = make_run(session, end_stored=True, answer="An answer.")
    fields = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
    Turn.objects.create(part=0, role="user", content="A question?", **fields)
    Turn.objects.create(part=1, role="assistant", content="An answer.", is_answer=True, **fields)
    return session


@pytest.fixture
def browser(session: Session) -> Client:
    client = Client(headers={"HX-Request": "true"})
    client.force_login(session.owner)
    return client


def summarise(session: Session, run: Run) -> None:
    Checkpoint.objects.create(
        session=session,
        run=run,
        ordinal=run.ordinal,
        index=0,
        reason="asked",
        summary="They <b>met</b>.",
        covered_turns=2,
        tokens_before=900,
        tokens_after=120,
        prompt_version="1",
        created_at=timezone.now(),
    )


def test_an_answer_says_that_earlier_messages_were_summarised(session: Session) -> None:
    run = Run.objects.get()
    summarise(session, run)
    view = queries.find_turn_view(session, run.id)
    assert view is not None
    html = answer_frame(view)["html"]
    assert "Earlier messages were summarised (900 → 120 tokens)" in html and "They &lt;b&gt;met&lt;/b&gt;." in html


def test_a_run_that_only_compacts_shows_its_line_alone(session: Session) -> None:
    run = make_run(session, end_stored=True, user_turn_count=0)
    fields = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
    Turn.objects.create(part=0, role="assistant", content="", is_answer=True, **fields)
    view = queries.find_turn_view(session, run.id)
    assert view is not None and "could not be summarised" in answer_frame(view)["html"]
    summarise(session, run)
    view = queries.find_turn_view(session, run.id)
    assert view is not None
    html = answer_frame(view)["html"]
    assert "were summarised" in html and "answer-foot" not in html


def test_a_message_and_an_answer_are_pinned_from_the_page(browser: Client, session: Session) -> None:
    path = f"/chat/runs/{Run.objects.get().id}/pin"
    assert 'aria-pressed="true"' in browser.post(path, {"part": "question", "pinned": "1"}).content.decode()
    browser.post(path, {"part": "answer", "pinned": "1"})
    assert Turn.objects.filter(is_pinned=True).count() == 2
    page = browser.get(f"/chat/{session.id}").content.decode()
    assert page.count('class="plain pin at-hover" aria-pressed="true"') == 2
    assert 'aria-pressed="false"' in browser.post(path, {"part": "answer", "pinned": ""}).content.decode()
    assert Turn.objects.get(is_pinned=True).role == "user"


def test_the_gauge_tells_screen_readers_the_use_of_the_context(browser: Client, session: Session) -> None:
    html = browser.get(f"/chat/{session.id}/context").content.decode()
    assert "Context used by this chat:" in html and "tokens." in html and 'class="ring"' in html
    assert "An estimate:" in html and f"/chat/{session.id}/compact" in html
    assert f'hx-get="/chat/{session.id}/context"' in browser.get(f"/chat/{session.id}").content.decode()


def test_a_chat_is_compacted_from_the_page(browser: Client, session: Session) -> None:
    assert browser.post(f"/chat/{session.id}/compact").status_code == 204
    assert Run.objects.order_by("-ordinal")[0].options == {"compacts_only": True}


def test_the_chat_of_another_user_has_no_gauge_and_no_pins(session: Session) -> None:
    stranger = Client()
    stranger.force_login(make_user("bob"))
    run = Run.objects.get()
    assert stranger.get(f"/chat/{session.id}/context").status_code == 404
    assert stranger.post(f"/chat/{session.id}/compact").status_code == 404
    assert stranger.post(f"/chat/runs/{run.id}/pin", {"part": "answer", "pinned": "1"}).status_code == 404
