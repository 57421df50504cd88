"""Versions of a message on the chat page: its commands, its turns and the update of open pages."""

import pytest
from django.utils import timezone

from agents_app.models import Run
from sessions_app.models import Turn
from sessions_app.surfaces.chat import queries
from sessions_app.surfaces.chat.fragments import branch_frame
from tests.support.rest import make_run, make_session

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "default_agent"),
    pytest.mark.one_database,
]
HTMX = {"HX-Request": "true"}


@pytest.fixture
def session(alice):
    session = make_session(alice)
    for text in ("one", "two"):
        run = make_run(session, end_stored=True, answer=text.upper())
        turn = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
        Turn.objects.create(part=0, role="user", content=text, **turn)
        Turn.objects.create(part=1, role="assistant", content=text.upper(), is_answer=True, **turn)
    return session


def post(browser, run, action, **fields):
    return browser.post(f"/chat/runs/{run.pk}/{action}", fields, headers=HTMX)


def shown(session):
    return [view.question for view in queries.read_newest(session).turn_views]


def end(session):
    """End the open run as the engine does."""
    run = Run.objects.get(status="queued")
    session.refresh_from_db()
    Run.objects.filter(pk=run.pk).update(status="completed", end_stored=True, ended_at=timezone.now())
    turn = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": timezone.now()}
    Turn.objects.create(part=1, role="assistant", content="new", is_answer=True, branch=session.active_branch, **turn)


def test_an_edited_message_is_shown_with_its_versions(browser, session):
    first, second = Run.objects.order_by("ordinal")
    fields = {"text": "uno", "key": "01890000-0000-7000-8000-000000000001"}
    assert post(browser, first, "edit", **fields).status_code == 204
    assert post(browser, first, "edit", **fields).status_code == 204, "sent twice, stored once"
    end(session)
    assert shown(session) == ["uno"]
    html = browser.get(f"/chat/{session.id}").content.decode()
    assert 'aria-label="Version 2 of 2"' in html and f"turn-{second.pk}" not in html
    edited = Run.objects.order_by("-ordinal")[0]
    assert post(browser, edited, "branch", branch="0").status_code == 204
    assert shown(session) == ["one", "two"]
    frame = branch_frame(session, queries.read_newest(session), 0)
    assert (frame["do"], frame["place"], frame["say"]) == ("branch", 0, "Version 1 of 2")
    assert queries.find_turn_view(session, edited.pk) is None, "an update that comes late does not show it"
    assert post(browser, edited, "branch", branch="x").status_code == 400
    assert post(browser, edited, "branch", branch="9").status_code == 404


def test_an_answer_is_generated_again_once_at_a_time(browser, session):
    last = Run.objects.order_by("-ordinal")[0]
    assert post(browser, last, "regenerate").status_code == 204
    refused = post(browser, last, "regenerate")
    assert refused.status_code == 409 and "Wait for its answer or stop it" in refused.content.decode()
    end(session)
    assert shown(session) == ["one", "two"]
    assert post(browser, last, "edit", text="  ").status_code == 400


def test_a_session_without_versions_offers_to_make_them(browser, session):
    html = browser.get(f"/chat/{session.id}").content.decode()
    assert html.count('aria-label="Edit the message"') == html.count('aria-label="Generate the answer again"') == 2
    assert "data-linear" not in html and 'class="versions"' not in html
    session.channel = "Telegram"
    session.save(update_fields=["channel"])
    assert "data-linear" in browser.get(f"/chat/{session.id}").content.decode()
