"""Commands of the chat page, with htmx and without."""

import re
from uuid import uuid4

import pytest
from django.test import Client

from agents_app.models import Run
from agents_app.types import RunStatus
from sessions_app.models import Session, Turn
from tests.support.rest import make_agent, make_run, make_session

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "default_agent"),
    pytest.mark.one_database,
]

HTMX = {"HX-Request": "true"}


@pytest.fixture
def session(alice) -> Session:
    return make_session(alice)


def _send(browser: Client, session: Session, text: str = "hello", **fields: str):
    return browser.post(f"/chat/{session.id}/messages", {"text": text, **fields}, headers=HTMX)


def test_a_first_message_makes_the_session(browser: Client, alice) -> None:
    make_agent("writer")
    fields = {"text": "Hello there\nfriend", "key": str(uuid4()), "agent": "writer"}
    first = browser.post("/chat/start", fields, headers=HTMX)
    session = Session.objects.get(owner=alice)
    assert first.headers["HX-Redirect"] == f"/chat/{session.id}"
    assert (session.title, session.agent.agent_id, session.channel) == ("Hello there", "writer", "WebChat")
    assert browser.post("/chat/start", fields, headers=HTMX).headers["HX-Redirect"] == f"/chat/{session.id}"
    assert Session.objects.count() == Run.objects.count() == 1


def test_two_first_messages_make_two_sessions(browser: Client) -> None:
    for _ in range(2):
        browser.post("/chat/start", {"text": "same", "key": str(uuid4())}, headers=HTMX)
    assert Session.objects.count() == 2


def test_a_first_message_that_is_refused_makes_nothing(browser: Client) -> None:
    assert browser.post("/chat/start", {"text": "hi", "agent": "nobody"}, headers=HTMX).status_code == 404
    assert browser.post("/chat/start", {"text": "  "}, headers=HTMX).status_code == 400
    assert Session.objects.count() == 0


def test_a_message_is_answered_with_its_turn(browser: Client, session: Session) -> None:
    response = _send(browser, session, "  what <b>now</b>?  ")
    run = Run.objects.get()
    assert response.status_code == 200
    html = response.content.decode()
    assert html.startswith(f'<section class="turn" id="turn-{run.pk}"')
    assert response.headers["X-New-Turn"] == str(run.pk)
    assert '<div class="bubble" dir="auto">what &lt;b&gt;now&lt;/b&gt;?</div>' in html
    assert "Queued, next" in html


def test_a_message_sent_twice_is_one(browser: Client, session: Session) -> None:
    key = str(uuid4())
    first, second = _send(browser, session, key=key), _send(browser, session, key=key)
    assert first.content == second.content
    assert Turn.objects.count() == 1
    assert _send(browser, session, "other", key=key).status_code == 422


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": ""}, "The message has no text."),
        ({"text": "x" * 10_001}, "at most 10,000 are allowed"),
        ({"text": "hi", "key": "not an id"}, "Reload the page"),
    ],
)
def test_a_refusal_names_what_to_do(browser: Client, session: Session, fields: dict[str, str], expected: str) -> None:
    response = _send(browser, session, **fields)
    assert response.status_code == 400
    html = response.content.decode()
    assert expected in html
    assert "<!doctype" not in html
    assert response.headers["X-Request-Id"] in html
    assert Turn.objects.count() == 0


def test_too_many_messages_are_refused_with_the_time_to_wait(browser: Client, session: Session, settings) -> None:
    settings.KOMAND_CHAT_LIMIT = 1
    _send(browser, session)
    response = _send(browser, session)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) >= 1
    assert "Too many requests" in response.content.decode()


def test_a_full_queue_is_reported(browser: Client, session: Session) -> None:
    make_run(session, RunStatus.RUNNING, owner=uuid4())
    session.agent.queue_limit = 1
    session.agent.save()
    assert _send(browser, session).status_code == 200
    response = _send(browser, session)
    assert response.status_code == 429
    assert "wait in this session already" in response.content.decode()


def test_without_script_the_page_is_shown_again(browser: Client, session: Session) -> None:
    response = browser.post(f"/chat/{session.id}/messages", {"text": "hi"})
    assert (response.status_code, response.headers["Location"]) == (302, f"/chat/{session.id}")
    refused = browser.post(f"/chat/{session.id}/messages", {"text": ""})
    assert refused.status_code == 400 and b"<!doctype html>" in refused.content


def test_what_the_page_sends_twice_without_script_is_one_message(browser: Client, session: Session) -> None:
    for page, target in (("/chat/new", "/chat/start"), (f"/chat/{session.id}", f"/chat/{session.id}/messages")):
        Run.objects.all().delete()
        (key,) = re.findall(r'name="key" value="([^"]+)"', browser.get(page).content.decode())
        answers = [browser.post(target, {"text": "hello", "key": key}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [302, 302]
        assert Run.objects.count() == 1


def test_stop_ends_the_named_run(browser: Client, session: Session) -> None:
    _send(browser, session)
    run = Run.objects.get()
    assert browser.post(f"/chat/{session.id}/stop", {"run": str(uuid4())}, headers=HTMX).status_code == 204
    assert Run.objects.get().status == RunStatus.QUEUED
    assert browser.post(f"/chat/{session.id}/stop", {"run": "nonsense"}, headers=HTMX).status_code == 400
    assert browser.post(f"/chat/{session.id}/stop", {"run": str(run.pk)}, headers=HTMX).status_code == 204
    assert Run.objects.get().status == RunStatus.CANCELLED


def test_a_waiting_message_can_be_withdrawn(browser: Client, session: Session) -> None:
    for _ in range(2):
        _send(browser, session)
    first, second = Run.objects.order_by("ordinal")
    assert browser.post(f"/chat/runs/{second.pk}/stop", headers=HTMX).status_code == 204
    assert set(Run.objects.values_list("pk", "status")) == {(first.pk, "queued"), (second.pk, "cancelled")}


def test_a_failed_message_is_tried_again_below(browser: Client, session: Session) -> None:
    run = make_run(session, RunStatus.FAILED)
    response = browser.post(f"/chat/runs/{run.pk}/retry", headers=HTMX)
    again = Run.objects.exclude(pk=run.pk).get()
    html = response.content.decode()
    assert f'id="turn-{again.pk}"' in html and 'class="question"' not in html
    session.refresh_from_db()
    done = make_run(session, RunStatus.COMPLETED)
    assert browser.post(f"/chat/runs/{done.pk}/retry", headers=HTMX).status_code == 409


def test_renaming_in_place(browser: Client, session: Session) -> None:
    form = browser.get(f"/chat/{session.id}/title", headers=HTMX).content.decode()
    assert 'class="rename"' in form
    here = {**HTMX, "HX-Current-URL": f"http://testserver/chat/{session.id}"}
    html = browser.post(f"/chat/{session.id}/title", {"title": " New <i> "}, headers=here).content.decode()
    assert '<h1 id="title" dir="auto" hx-swap-oob="true">New &lt;i&gt;</h1>' in html
    elsewhere = browser.post(f"/chat/{session.id}/title", {"title": "Again"}, headers=HTMX).content.decode()
    assert "<h1" not in elsewhere and "Again" in elsewhere
    assert browser.post(f"/chat/{session.id}/title", {"title": "  "}, headers=HTMX).status_code == 400
    kept = browser.get(f"/chat/{session.id}/title?cancel", headers=HTMX).content.decode()
    assert "Again" in kept and "<form" not in kept


def test_deleting_the_shown_session_redirects(browser: Client, session: Session) -> None:
    here = {**HTMX, "HX-Current-URL": f"http://testserver/chat/{session.id}"}
    assert browser.post(f"/chat/{session.id}/delete", headers=here).headers["HX-Redirect"] == "/"
    assert browser.get(f"/chat/{session.id}").status_code == 404
    assert browser.post(f"/chat/{session.id}/delete", headers=here).status_code == 404


def test_deleting_another_chat_takes_its_entry_away(browser: Client, session: Session) -> None:
    elsewhere = {**HTMX, "HX-Current-URL": "http://testserver/chat/new"}
    response = browser.post(f"/chat/{session.id}/delete", headers=elsewhere)
    assert (response.status_code, response.content) == (200, b"")


def test_changing_the_agent_of_a_session(browser: Client, session: Session) -> None:
    make_agent("writer")
    assert browser.post(f"/chat/{session.id}/agent", {"agent": "writer"}, headers=HTMX).status_code == 204
    _send(browser, session)
    assert Run.objects.get().agent.agent_id == "writer"
    assert browser.post(f"/chat/{session.id}/agent", {"agent": "nobody"}, headers=HTMX).status_code == 404


def test_the_request_id_goes_into_the_run(browser: Client, session: Session) -> None:
    request_id = str(uuid4())
    browser.post(f"/chat/{session.id}/messages", {"text": "hi"}, headers={**HTMX, "X-Request-Id": request_id})
    assert Run.objects.get().request_id == request_id
