"""The choice of an agent on the page: a menu of a few, and a search among many that needs no mouse."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import NewTab, create_agent
from tests.support.live_server import LiveKomand

_AGENTS = 24


@pytest.fixture(scope="module")
def many(live_komand: LiveKomand) -> Iterator[None]:
    """Have many agents until the end of the module. An id of a retired agent cannot be used again."""
    with httpx2.Client(base_url=f"{live_komand.url}/api", timeout=60) as api:
        who = {"email": "admin@localhost", "password": live_komand.password}
        token = api.post("/auth/login", json=who).json()["data"]["token"]
        api.headers["Authorization"] = f"Bearer {token}"
        names = [f"many-{number}" for number in range(_AGENTS)]
        for name in names:
            made = api.post("/agents", json={"agentId": name, "name": f"Helper {name}", "description": "One of many."})
            assert made.status_code in (200, 201), made.text
        yield
        for name in names:
            api.delete(f"/agents/{name}").raise_for_status()


def test_few_agents_are_in_a_menu_alone(new_tab: NewTab) -> None:
    page = new_tab().open().page
    expect(page.get_by_label("Agent", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Find another agent")).to_have_count(0)


def test_a_new_chat_offers_the_starters_of_its_agent(new_tab: NewTab, live_komand: LiveKomand) -> None:
    starters = ["[[text=Ahoi]]", "[[text=Bye]]"]
    create_agent(live_komand, agentId="sailor", name="Sailor", description="Knows <b>ropes</b>.", starters=starters)
    chat = new_tab().open()
    page = chat.page
    suggestions = page.get_by_role("list", name="Suggestions").get_by_role("button")
    expect(suggestions.first).to_have_text("What is 17*23 and what time is it in Tokyo?")
    page.get_by_label("Agent", exact=True).select_option("sailor")
    expect(suggestions).to_have_text(starters)
    expect(page.get_by_role("heading", name="Sailor", exact=True)).to_be_visible()
    expect(page.locator("#welcome")).to_contain_text("Knows <b>ropes</b>.")
    suggestions.first.click()
    chat.wait_finished()
    expect(chat.answers).to_have_text(re.compile("Ahoi"))
    expect(suggestions).to_have_count(0)
    page.goto(f"{live_komand.url}/chat/new?agent=team")
    expect(page.get_by_role("heading", name="Team", exact=True)).to_be_visible()
    expect(suggestions).to_have_count(0)


def test_a_greeting_that_comes_after_the_first_message_is_dropped(new_tab: NewTab) -> None:
    chat = new_tab().open()
    page = chat.page
    greetings: list[Route] = []
    messages: list[Route] = []
    page.route("**/chat/new?agent=*", lambda route: greetings.append(route))
    page.route("**/chat/start", lambda route: messages.append(route))
    with page.expect_request("**/chat/new?agent=*"):
        page.get_by_label("Agent", exact=True).select_option("team")
    with page.expect_request("**/chat/start"):
        chat.send("hello")
    expect(page.locator("#welcome")).to_have_count(0)
    with page.expect_response("**/chat/new?agent=*") as greeting:
        greetings[0].continue_()
    greeting.value.finished()
    messages[0].continue_()
    chat.wait_finished()


def test_an_agent_among_many_is_found_and_chosen_with_the_keyboard(new_tab: NewTab, many: None) -> None:
    chat = new_tab().open()
    page, menu = chat.page, chat.page.get_by_label("Agent", exact=True)
    page.get_by_role("button", name="Find another agent").press("Enter")
    box = page.get_by_role("searchbox", name="Name or description")
    expect(box).to_be_focused()
    expect(page.locator("#agents-list button").first).to_be_visible()
    page.keyboard.type("nobody has this")
    expect(page.locator("#agents-list")).to_contain_text("No agent matches “nobody has this”.")
    box.fill("helper many-1")
    found = page.locator("#agents-list button")
    expect(found).to_have_count(11)  # many-1 and many-10 to many-19
    page.keyboard.press("ArrowDown")
    expect(found.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    box.fill("many-17")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(menu).to_have_value("many-17")
    expect(menu).to_be_focused()
    chat.ask(tokens=2)
    page.wait_for_url("**/chat/*-*")
    expect(menu).to_have_value("many-17")  # which the session has


def test_the_agent_of_an_open_chat_is_changed_by_the_search(new_tab: NewTab, many: None) -> None:
    chat = new_tab().open()
    page, menu = chat.page, chat.page.get_by_label("Agent", exact=True)
    chat.ask(tokens=2)
    page.wait_for_url("**/chat/*-*")
    page.get_by_role("button", name="Find another agent").click()
    page.get_by_role("searchbox", name="Name or description").fill("many-23")
    with page.expect_response("**/agent") as bound:
        page.get_by_role("button", name="Helper many-23").click()
    assert bound.value.status == 204
    page.reload()
    expect(menu).to_have_value("many-23")
    page.get_by_role("button", name="Find another agent").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(menu).to_have_value("many-23")
