"""Lists and pages read a page of agents, however many there are, and filters search them."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents_app.models import Agent
from audit_app.admin_base.filters import MOST_LISTED
from sessions_app.models import ChannelAccount
from tests.support.many_agents import make_agents
from tests.support.rest import RestCaller, make_agent, make_run, make_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_FEW, _MANY = 60, 240  # both more than a page
LISTS = {
    "agents": "/admin/agents_app/agent/",
    "sessions": "/admin/sessions_app/session/",
    "runs": "/admin/agents_app/run/",
}


def cost(get: Callable[[], bytes]) -> tuple[int, int]:
    """Return the number of statements, and the kilobytes of the answer."""
    with CaptureQueriesContext(connection) as queries:
        answer = get()
    return len(queries), len(answer) // 1024


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_the_admin_does_not_grow_with_agents(name: str, pages: Client, operator: User) -> None:
    make_agent()
    make_run(make_session(operator))
    make_agents(_FEW)
    pages.get(LISTS[name])  # what is read once
    before = cost(lambda: pages.get(LISTS[name]).content)
    make_agents(_MANY, first=_FEW)
    after = cost(lambda: pages.get(LISTS[name]).content)
    assert after[0] == before[0] and abs(after[1] - before[1]) <= 2


def test_the_list_of_the_api_reads_one_page_and_counts_all(alice: User) -> None:
    caller = RestCaller(alice)
    make_agents(_FEW)
    with CaptureQueriesContext(connection) as few:
        assert len(caller.get("agents").data) == 50
    make_agents(_MANY, first=_FEW)
    with CaptureQueriesContext(connection) as many:
        answer = caller.get("agents?page=6")
    assert len(many) == len(few)
    assert answer.meta["total"] == _FEW + _MANY + 1 and answer.data[0]["agentId"] == "agent-0250"


def test_a_filter_lists_few_rows_and_searches_many(pages: Client) -> None:
    make_agents(MOST_LISTED - 1)
    few = pages.get(LISTS["sessions"]).content.decode()
    assert few.count("Agent 7") and "unfold-filter-autocomplete" not in few
    made = make_agents(2, first=MOST_LISTED)
    many = pages.get(LISTS["sessions"], {"agent__id__exact": made[0].pk}).content.decode()
    assert "unfold-filter-autocomplete" in many and "Agent 7" not in many
    assert "Agent 20" in many  # the one that is chosen
    found = {"app_label": "sessions_app", "model_name": "session", "field_name": "agent", "term": "Agent 20"}
    assert [row["text"] for row in pages.get("/admin/autocomplete/", found).json()["results"]] == ["Agent 20"]


def test_a_filter_is_left_out_for_users_who_may_not_search_its_rows(staff: Callable[..., Client]) -> None:
    make_agents(MOST_LISTED + 1)
    page = staff("sessions_app.view_session").get(LISTS["sessions"])
    assert page.status_code == 200 and b"agent__id__exact" not in page.content


def test_a_filter_by_account_searches_many(pages: Client) -> None:
    ChannelAccount.objects.bulk_create(
        ChannelAccount(channel="webhook", account_id=f"a{number}", access="open") for number in range(MOST_LISTED + 1)
    )
    assert b"unfold-filter-autocomplete" in pages.get("/admin/sessions_app/delivery/").content
    assert Agent.objects.count() == 0
