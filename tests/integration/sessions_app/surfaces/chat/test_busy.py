"""Messages to a chat with an open run: they wait, join or interrupt."""

from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Run
from sessions_app.models import Session
from tests.support.rest import make_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]


@pytest.fixture
def session(alice: User) -> Session:
    return make_session(alice)


def _send(browser: Client, session: Session, text: str, busy: str = "", *, status: int = 200) -> UUID | None:
    sent = browser.post(f"/chat/{session.pk}/messages", {"text": text, "busy": busy}, headers={"HX-Request": "true"})
    assert sent.status_code == status, sent.content
    return UUID(sent.headers["X-New-Turn"]) if status == 200 else None


def _set_policy(session: Session, policy: str) -> None:
    type(session.agent).objects.filter(pk=session.agent_id).update(busy_policy=policy)


def test_a_message_waits_joins_or_interrupts_as_chosen_whatever_the_agent_does(
    browser: Client, session: Session
) -> None:
    _set_policy(session, "interrupt")
    first = _send(browser, session, "one")
    second = _send(browser, session, "two", "queue")
    assert second != first and Run.objects.filter(cancel_requested_at=None).count() == 2
    assert _send(browser, session, "three", "steer") == second, "it joins the last open run"
    page = browser.get(f"/chat/{session.pk}").content.decode()
    assert "two\n\nthree" in page and 'value="interrupt" checked' in page
    fourth = _send(browser, session, "four", "interrupt")
    assert list(Run.objects.filter(cancel_requested_at=None).values_list("pk", flat=True)) == [fourth]


def test_an_agent_that_rejects_messages_leaves_no_choice(browser: Client, session: Session) -> None:
    _send(browser, session, "one", status=200)
    _set_policy(session, "reject")
    _send(browser, session, "two", "interrupt", status=409)
    assert 'name="busy"' not in browser.get(f"/chat/{session.pk}").content.decode()


def test_an_unknown_choice_is_refused(browser: Client, session: Session) -> None:
    _send(browser, session, "one", "shout", status=400)
    assert not Run.objects.exists()


def test_the_page_lists_the_commands_that_it_carries_out(browser: Client) -> None:
    page = browser.get("/chat/new").content.decode()
    assert 'data-name="/approve"' in page and 'data-name="/deny" data-argument' in page
    assert 'data-name="/link"' not in page
