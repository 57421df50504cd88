"""The choice of an agent on the page: a menu of few agents, a search among many. Its cost does not grow with them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.models import Agent
from sessions_app.models import Session
from sessions_app.surfaces.chat.agent_menu import MOST_FOUND, MOST_LISTED
from tests.support.many_agents import make_agents
from tests.support.rest import make_agent, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

HTMX = {"HX-Request": "true"}


def page_of(browser: Client, path: str) -> str:
    return browser.get(path).content.decode()


def search(browser: Client, query: str = "") -> list[str]:
    """Return the ids of the agents that are found, in order."""
    answer = browser.get("/chat/agents", {"q": query}, headers=HTMX).content.decode()
    return [part.split('"')[0] for part in answer.split('data-agent="')[1:]]


def test_few_agents_are_all_listed_without_a_search(browser: Client) -> None:
    make_agents(MOST_LISTED - 1)
    page = page_of(browser, "/chat/new")
    assert page.count("<option") == MOST_LISTED and "open-agents" not in page and 'id="agents"' not in page


def test_of_many_agents_the_chosen_one_and_those_used_last_are_listed(alice: User, browser: Client) -> None:
    made = make_agents(MOST_LISTED)
    Session.objects.filter(pk=make_session(alice).pk).update(agent=made[7])
    page = page_of(browser, "/chat/new?agent=agent-0012")
    assert page.count("<option") == 2 and 'value="agent-0012" selected' in page and 'value="agent-0007"' in page
    assert 'id="open-agents"' in page and 'hx-get="/chat/agents"' in page


def test_the_agent_of_a_session_is_listed_even_if_it_was_retired(alice: User, browser: Client) -> None:
    make_agents(MOST_LISTED)
    session = make_session(alice)
    Agent.objects.filter(agent_id="default").update(retired_at=timezone.now())
    assert 'value="default" selected' in page_of(browser, f"/chat/{session.id}")


def test_the_page_does_not_grow_with_agents(browser: Client) -> None:
    sizes = []
    for first, count in ((0, 30), (30, 270)):
        make_agents(count, first=first)
        with CaptureQueriesContext(connection) as queries:
            page = page_of(browser, "/chat/new")
        sizes.append((len(queries), page.count("<option"), len(page) // 100))
    assert sizes[0] == sizes[1]


def test_each_word_is_searched_in_name_id_and_description(browser: Client) -> None:
    make_agents(3)
    make_agent("writer", name="Ghost", description="Writes letters")
    make_agent("lawyer", name="Counsel", description="Reads letters")
    assert search(browser, "ghost") == ["writer"] == search(browser, "writ LETTERS")
    assert search(browser, "letters") == ["lawyer", "writer"]
    assert search(browser, "agent-0002") == ["agent-0002"]


def test_agents_used_last_are_found_first(alice: User, browser: Client) -> None:
    made = make_agents(9)
    for number, at in ((6, 1), (3, 2)):
        key = f"WebChat:default:{alice.pk}:{number}"
        Session.objects.filter(pk=make_session(alice, key=key).pk).update(
            agent=made[number], last_active_at=timezone.now() + timedelta(minutes=at)
        )
    assert search(browser)[:3] == ["agent-0003", "agent-0006", "agent-0000"]
    assert search(browser, "agent")[:2] == ["agent-0003", "agent-0006"]


def test_without_a_match_the_list_says_so(browser: Client) -> None:
    answer = browser.get("/chat/agents", {"q": "<nobody>\0"}, headers=HTMX).content.decode()
    assert "No agent matches “&lt;nobody&gt;" in answer


def test_a_long_list_ends_with_a_hint(browser: Client) -> None:
    make_agents(MOST_FOUND + 5)
    answer = browser.get("/chat/agents", headers=HTMX).content.decode()
    assert answer.count("data-agent=") == MOST_FOUND and "Type more to find others." in answer


def test_only_agents_that_the_user_may_choose_here_are_found(browser: Client) -> None:
    make_agent("private", is_shared_with_everyone=False, owner_id=make_user("bob").pk)
    make_agent("old", retired_at=timezone.now())
    make_agent("phone", allowed_channels=["Telegram"])
    make_agent("both", allowed_channels=["Telegram", "WebChat"])
    assert search(browser) == ["both", "default"]
    assert search(browser, "private") == []


def test_a_browser_that_opens_the_search_as_a_page_gets_a_new_chat(browser: Client) -> None:
    assert browser.get("/chat/agents").headers["Location"] == "/chat/new"
