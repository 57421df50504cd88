"""The tour, all steps in one go, on a new installation with its demo model."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chat_page import ChatPage
from tests.browser.test_accessibility import WIDE, find_violations
from tests.support.live_server import LiveKomand, start_komand

LONG = 120_000  # of an answer that is written twice for half a minute


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKomand]:
    """Yield an installation at its first start, without any model but the demo."""
    komand = start_komand(tmp_path_factory.mktemp("tour"))
    yield komand
    komand.stop()


@pytest.fixture
def tab(chromium: Browser, fresh: LiveKomand) -> Iterator[ChatPage]:
    context = chromium.new_context(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    chat = ChatPage(context.new_page(), fresh.url).open("/login")
    chat.log_in(fresh.password)
    chat.page.wait_for_url("**/chat/**")
    yield chat
    context.close()
    assert chat.problems == []


def _next(page: Page, title: str) -> None:
    page.get_by_role("button", name=f"Next: {title}").click()
    expect(page.locator("#tour-title")).to_contain_text(title)


def _check(page: Page, state: str) -> None:
    found = find_violations(page, f"{state}, light")
    page.emulate_media(color_scheme="dark")
    found += find_violations(page, f"{state}, dark", runOnly=["color-contrast"])
    page.emulate_media(color_scheme="light")
    assert found == []


def _status(page: Page) -> Locator:
    return page.locator("#tour [role=status]")


def test_the_tour_shows_each_step_and_can_be_removed(tab: ChatPage, fresh: LiveKomand) -> None:
    page = tab.page
    tab.open()
    _check(page, "start page")
    page.get_by_role("button", name="Start the tour").click()
    page.wait_for_url("**/chat/*-*")
    chat_address = page.url

    page.get_by_role("button", name="Ask two things").click()
    expect(_status(page)).to_contain_text("called at the same time")
    expect(tab.answers.last).to_contain_text("391")
    run = page.request.get(page.get_by_role("link", name="See this run").evaluate("link => link.href"))
    assert run.ok and "calculator" in run.text()

    _next(page, "Approval")
    page.get_by_role("button", name="Write the file").click()
    expect(_status(page)).to_contain_text("1 waits for you")
    _check(page, "approval")
    page.get_by_role("button", name=re.compile("^Allow once")).click()
    expect(_status(page)).to_contain_text("You allowed it")
    page.get_by_role("button", name="Add a line").click()
    expect(_status(page)).to_contain_text("1 waits for you")
    page.get_by_role("button", name="Deny").click()
    expect(_status(page)).to_contain_text("You denied it")

    _next(page, "Crash")
    page.get_by_role("button", name="Start the long answer").click()
    kill = page.get_by_role("button", name=re.compile(r"Kill worker \d+ now"))
    expect(kill).to_be_visible()
    expect(tab.answers.last).to_contain_text("A message is stored")
    kill.click()
    expect(_status(page)).to_contain_text(re.compile(r"Another took over after \d+\.\d s"), timeout=LONG)
    expect(_status(page)).to_contain_text("0 letters lost, 0 twice", timeout=LONG)
    assert "died; the run was released" in fresh.log.read_text()

    _next(page, "Team")
    page.get_by_role("button", name="Start the team").click()
    expect(_status(page)).to_contain_text("2 wait for you", timeout=LONG)
    _check(page, "team")
    page.get_by_role("button", name=re.compile("^Allow once")).last.click()
    page.get_by_role("button", name="Tokyo", exact=True).click()
    expect(_status(page)).to_contain_text("3 of 3 workstreams have ended", timeout=LONG)
    expect(tab.answers.last).to_contain_text("You answered Tokyo")

    _next(page, "Anywhere")
    expect(_status(page)).to_contain_text(chat_address)
    _next(page, "Proof")
    expect(_status(page)).to_contain_text(re.compile(r"has cost 0\.\d+"))
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Verify the audit log").click()
    expect(opened.value.get_by_text("Unbroken").first).to_be_visible()
    opened.value.close()
    assert page.request.get(page.get_by_role("link", name="Who decided").evaluate("link => link.href")).ok
    assert page.request.get(page.get_by_role("link", name="Costs").evaluate("link => link.href")).ok

    _next(page, "Yours")
    for name in ("Connect your model", "Next steps"):
        assert page.request.get(page.locator("#tour").get_by_role("link", name=name).evaluate("link => link.href")).ok
    page.set_viewport_size({"width": 390, "height": 780})
    assert find_violations(page, "phone") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    page.get_by_role("button", name="Remove the tour's data").click()
    page.locator("#confirm").get_by_role("button").last.click()
    page.wait_for_url("**/chat/new")
    assert page.request.get(chat_address).status == 404
