"""The pages: access, contents and costs."""

import re
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import Run, Step
from agents_app.types import RunStatus
from sessions_app.conversation import message_index
from sessions_app.conversation.history import StoredConversations
from sessions_app.models import Session, Turn
from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.chat.turn_views import LONGEST_REASONING
from tests.support.rest import make_agent, make_execution, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

HTMX = {"HX-Request": "true"}


def _turn_view(session: Session, question: str, answer: str, *, calls: int = 0, **fields: Any) -> None:
    """Store an ended run with its turns: that many calls, then the answer."""
    run = make_run(session)
    executions = [make_execution(run, call_index=i, status="Completed", output='{"n":1}') for i in range(calls)]
    ids = [str(execution.pk) for execution in executions]
    turns = [Turn(role="user", content=question)]
    if calls:
        turns += [Turn(role="assistant", content="let me see", tool_calls=[{}] * calls, tool_call_ids=ids)]
        turns += [Turn(role="tool", content="1", tool_call_ids=[id_]) for id_ in ids]
    turns += [Turn(role="assistant", content=answer, is_answer=True, tool_call_ids=ids or None, **fields)]
    for part, turn in enumerate(turns):
        turn.session, turn.run, turn.ordinal, turn.part, turn.created_at = (
            session,
            run,
            run.ordinal,
            part,
            timezone.now(),
        )
    Turn.objects.bulk_create(turns)


def _long_session(owner, turn_views: int) -> Session:
    session = make_session(owner)
    runs = [make_run(session) for _ in range(turn_views)]
    now = timezone.now()
    rows = []
    for run in runs:
        answer = f"**answer {run.ordinal}**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = {run.ordinal}\n```\n"
        rows.append(
            Turn(session=session, run=run, ordinal=run.ordinal, part=0, role="user", content="q", created_at=now)
        )
        rows.append(
            Turn(
                session=session,
                run=run,
                ordinal=run.ordinal,
                part=1,
                role="assistant",
                content=answer,
                is_answer=True,
                created_at=now,
            )
        )
    Turn.objects.bulk_create(rows)
    return session


def _page(browser: Client, path: str, **headers: str) -> str:
    response = browser.get(path, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_home_leads_to_the_newest_chat_or_to_a_new_one(browser: Client, alice) -> None:
    assert browser.get("/").headers["Location"] == "/chat/new"
    session = make_session(alice)
    assert browser.get("/").headers["Location"] == f"/chat/{session.id}"


READ = ["", "/turns?before=5", "/title"]
CHANGED = ["/messages", "/stop", "/title", "/delete", "/agent"]


def test_anonymous_users_are_redirected_to_the_login_and_back(alice) -> None:
    session = make_session(alice)
    for path in ["/", "/chat/new", "/chat/sessions", "/chat/agents", *(f"/chat/{session.id}{tail}" for tail in READ)]:
        location = Client().get(path).headers["Location"]
        assert location.startswith("/login")
    assert Client().get(f"/chat/{session.id}").headers["Location"] == f"/login?next=%2Fchat%2F{session.id}"
    sent = Client().post(
        f"/chat/{session.id}/messages", headers={**HTMX, "HX-Current-URL": f"http://testserver/chat/{session.id}"}
    )
    assert sent.headers["HX-Redirect"] == f"/login?next=%2Fchat%2F{session.id}"


def test_chats_of_other_users_are_not_found(browser: Client) -> None:
    session = make_session(make_user("bob"))
    run = make_run(session, RunStatus.FAILED)
    for tail in READ:
        assert browser.get(f"/chat/{session.id}{tail}").status_code == 404
    for path in [
        *(f"/chat/{session.id}{tail}" for tail in CHANGED),
        f"/chat/runs/{run.pk}/stop",
        f"/chat/runs/{run.pk}/retry",
        f"/chat/runs/{run.pk}/regenerate",
        f"/chat/runs/{run.pk}/edit",
        f"/chat/runs/{run.pk}/branch",
    ]:
        assert browser.post(path, {"text": "x", "title": "x", "agent": "default"}).status_code == 404
    assert browser.get(f"/chat/{uuid4()}").status_code == 404


def test_the_address_of_a_deleted_chat_leads_to_the_others(browser: Client, alice: User) -> None:
    kept, other = make_session(alice), make_session(make_user("bob"))
    for chat, title in ((kept, "Kept"), (other, "Of Bob")):
        Session.objects.filter(pk=chat.pk).update(title=title)
    for gone in (uuid4(), other.id):
        page = browser.get(f"/chat/{gone}")
        html = page.content.decode()
        assert page.status_code == 404 and "This chat was deleted" in html and "Of Bob" not in html
        assert f'<a href="/chat/{kept.id}" dir="auto">Kept</a>' in html


def test_changes_need_the_pages_token_and_a_post(alice) -> None:
    session, strict = make_session(alice), Client(enforce_csrf_checks=True)
    strict.force_login(alice)
    for path in ["/chat/start", *(f"/chat/{session.id}{tail}" for tail in CHANGED)]:
        assert strict.post(path, {"text": "x"}).status_code == 403
        if path.endswith("/title"):
            continue
        assert strict.get(path).status_code == 405


def test_pages_allow_no_script_or_style_but_files(browser: Client, alice) -> None:
    session = make_session(alice)
    _turn_view(session, "<script>alert(1)</script>", "**a**\n\n| a |\n|--:|\n| 1 |", calls=1)
    for path in ("/chat/new", f"/chat/{session.id}"):
        response = browser.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        html = response.content.decode()
        assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|<style", html)


def test_the_newest_fifty_turns_then_the_older_ones(browser: Client, alice) -> None:
    session = _long_session(alice, 60)
    html = _page(browser, f"/chat/{session.id}")
    assert html.count('class="turn"') == 25
    assert "answer 59" in html and "answer 35" in html and "answer 34<" not in html
    older = re.search(r'hx-get="(/chat/[^"]+/turns\?before=35)"', html)
    assert older
    fragment = _page(browser, older.group(1), **HTMX)
    assert fragment.count('class="turn"') == 25 and "answer 10" in fragment
    last = _page(browser, f"/chat/{session.id}/turns?before=10", **HTMX)
    assert last.count('class="turn"') == 10 and "Show older" not in last


@pytest.mark.parametrize("before", ["x", "", "-5", "99999999999999999999"])
def test_any_ordinal_is_accepted_for_older_turns(browser: Client, alice, before: str) -> None:
    session = _long_session(alice, 2)
    assert browser.get(f"/chat/{session.id}/turns", {"before": before}).status_code in (200, 400)


def test_a_run_is_never_cut_in_two(browser: Client, alice) -> None:
    session = make_session(alice)
    for number in range(4):
        _turn_view(session, f"question {number}", "so", calls=15)
    html = _page(browser, f"/chat/{session.id}")
    assert html.count('class="call"') == 15 * html.count('class="turn"')
    _turn_view(session, "a long one", "so", calls=70)
    html = _page(browser, f"/chat/{session.id}")
    assert html.count('class="turn"') == 1 and html.count('class="call"') == 70 and "a long one" in html


def test_a_thousand_turns_open_quickly_with_few_queries(browser: Client, alice) -> None:
    session = _long_session(alice, 500)
    _page(browser, f"/chat/{session.id}")  # makes the renderings and stores them
    times = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            began = time.thread_time()  # of its own: what others do meanwhile is not its fault
            _page(browser, f"/chat/{session.id}")
            times.append(time.thread_time() - began)
        assert len(queries) <= 18
    assert min(times) < 0.2


def test_answers_are_rendered_once_and_anew_when_the_rules_change(browser: Client, alice, monkeypatch) -> None:
    session = make_session(alice)
    _turn_view(session, "q", "**bold**")
    assert "<strong>bold</strong>" in _page(browser, f"/chat/{session.id}")
    answer = Turn.objects.get(session=session, is_answer=True)
    assert answer.html == markdown.VERSION + '<p dir="auto"><strong>bold</strong></p>\n'
    Turn.objects.filter(pk=answer.pk).update(html=markdown.VERSION + "stored")
    assert '<div class="markdown">stored</div>' in _page(browser, f"/chat/{session.id}")
    monkeypatch.setattr(markdown, "VERSION", "<!--next-->")
    assert "<strong>bold</strong>" in _page(browser, f"/chat/{session.id}")
    assert Turn.objects.get(pk=answer.pk).html.startswith("<!--next-->")


def test_an_open_run_is_shown_with_what_is_recorded(browser: Client, alice) -> None:
    session = make_session(alice)
    run = make_run(session, RunStatus.WAITING, waiting_on="tools")
    Turn.objects.create(
        session=session, run=run, ordinal=run.ordinal, part=0, role="user", content="q", created_at=timezone.now()
    )
    call = {"id": "call_1", "name": "echo", "arguments": "{}"}
    now = timezone.now()
    Step.objects.create(
        run=run,
        index=0,
        fence=1,
        text="let *me* see",
        tool_calls=[call],
        finish_reason="tool_calls",
        started_at=now,
        ended_at=now,
    )
    make_execution(run, arguments={"text": "hi"}, status="Running", owner=uuid4(), started_at=now)
    waiting = make_run(session, RunStatus.QUEUED)
    Turn.objects.create(
        session=session, run=waiting, ordinal=waiting.ordinal, part=0, role="user", content="next", created_at=now
    )
    html = _page(browser, f"/chat/{session.id}")
    assert "let <em>me</em> see" in html and "is-running" in html and "Using echo…" in html
    assert "Queued, next" in html
    assert html.index("let <em>me</em>") < html.index('class="call"') < html.index("Queued, next")


def test_a_run_whose_answer_is_not_stored_yet_stays_open(browser: Client, alice) -> None:
    session = make_session(alice)
    run = make_run(session, RunStatus.COMPLETED)
    Turn.objects.create(
        session=session, run=run, ordinal=run.ordinal, part=0, role="user", content="q", created_at=timezone.now()
    )
    assert "data-open" in _page(browser, f"/chat/{session.id}")


def test_errors_and_stopped_answers_differ(browser: Client, alice) -> None:
    session = make_session(alice)
    _turn_view(session, "a", "part", state="partial", error_code="cancelled", error_message="Stopped.")
    _turn_view(session, "b", "", state="error", error_code="model_auth", error_message="The key <b> is refused.")
    html = _page(browser, f"/chat/{session.id}")
    assert html.count('class="stopped"') == 1
    assert "The key &lt;b&gt; is refused." in html
    assert html.count("Try again") == 2  # the style sheet shows the newest alone


def test_a_message_that_was_removed_from_the_queue_is_not_shown_and_was_not_sent(browser: Client, alice) -> None:
    session = make_session(alice)
    _turn_view(session, "taken back", "", state="partial", error_code="cancelled", error_message="Stopped.")
    _turn_view(session, "stopped", "", state="partial", error_code="cancelled", error_message="Stopped.")
    first, second = Run.objects.filter(conversation_id=session.id).order_by("ordinal")
    Run.objects.filter(pk=first.pk).update(status=RunStatus.CANCELLED, started_at=None)
    Run.objects.filter(pk=second.pk).update(status=RunStatus.CANCELLED, started_at=timezone.now())
    html = _page(browser, f"/chat/{session.id}")
    assert ("taken back" in html, html.count('class="stopped"'), html.count("Try again")) == (False, 1, 1)
    following = agents.run_view(make_run(session))
    assert [
        message.content
        for message in StoredConversations().history(following.conversation_id, following.ordinal, longest=1000)
    ] == ["stopped"]


def test_reasoning_is_folded_apart_from_the_answer(browser: Client, alice) -> None:
    session = make_session(alice)
    _turn_view(session, "why", "so")
    now, run = timezone.now(), Run.objects.get(conversation_id=session.id)
    thought = "because <b>" + "x" * LONGEST_REASONING
    Step.objects.create(
        run=run, index=0, fence=1, text="so", reasoning=thought, reasoning_ms=4200, started_at=now, ended_at=now
    )
    html = _page(browser, f"/chat/{session.id}")
    fold = re.search(r'<details class="reasoning" .*?</details>', html, re.DOTALL)
    assert fold and "Thought for 4.2 s" in fold[0] and "because &lt;b&gt;x" in fold[0]
    assert html.count("x" * 1000) == LONGEST_REASONING // 1000 - 1 and " open>" not in fold[0]
    assert html.index('class="reasoning"') < html.index('<p dir="auto">so</p>')
    source = re.search(r'<template class="source">(.*?)</template>', html, re.DOTALL)
    assert source and source[1] == "so"


def test_the_list_has_my_chats_by_day_and_finds_titles(browser: Client, alice) -> None:
    now = timezone.now()
    for days, title in enumerate(["Alpha", "Beta plan", "Gamma plan"]):
        session = make_session(alice, key=f"WebChat:default:{alice.pk}:{days}")
        Session.objects.filter(pk=session.pk).update(title=title, last_active_at=now - timedelta(days=days * 3))
        message_index.put_title(session, title)
    hidden = make_session(make_user("bob"))
    Session.objects.filter(pk=hidden.pk).update(title="Foreign plan")
    html = _page(browser, "/chat/sessions", **HTMX)
    assert re.findall(r"<h2>(.*)</h2>", html) == ["Today", "Last 7 days"]
    assert re.findall(r'class="session-title">(.*)</span>', html) == ["Alpha", "Beta plan", "Gamma plan"]
    found = _page(browser, "/chat/sessions?q=+PLAN+", **HTMX)
    assert re.findall(r'class="session-title">(.*)</span>', found) == ["Gamma plan", "Beta plan"]
    assert "No chat contains “zzz”" in _page(browser, "/chat/sessions?q=zzz", **HTMX)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "nowhere", "../../etc/passwd", "", "a" * 500])
def test_any_time_zone_cookie_is_accepted(browser: Client, alice, zone: str) -> None:
    make_session(alice)
    browser.cookies["komand_zone"] = zone
    assert "<h2>Today</h2>" in _page(browser, "/chat/sessions", **HTMX)


def test_running_sessions_are_marked_in_the_list(browser: Client, alice) -> None:
    make_run(make_session(alice), RunStatus.RUNNING, owner=uuid4())
    assert 'class="dot"' in _page(browser, "/chat/sessions", **HTMX)


def test_only_agents_that_serve_the_page_are_offered(browser: Client) -> None:
    make_agent("writer", description="Writes")
    make_agent("pager", allowed_channels=["Slack"])
    html = _page(browser, "/chat/new?agent=writer")
    assert re.search(r'<option value="writer" selected', html)
    assert "pager" not in html


def test_only_operators_see_the_link_to_the_admin(browser: Client, alice) -> None:
    assert "/admin/" not in _page(browser, "/chat/new")
    alice.is_staff = True
    alice.save()
    assert 'href="/admin/"' in _page(browser, "/chat/new")


def test_pages_are_not_kept_by_caches(browser: Client) -> None:
    assert browser.get("/chat/new").headers["Cache-Control"] == "no-store"
