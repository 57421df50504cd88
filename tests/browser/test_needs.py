"""Requests that wait for the user: in the list of chats, the title, above the message box, and on a page of its own."""

import re

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_accessibility import find_violations
from tests.browser.test_approvals import ask

QUESTION = {"question": "Which currency?", "options": ["EUR", "USD"]}


def entry(tab: ChatPage, chat: ChatPage) -> Locator:
    """Return the entry of a chat in the list of a tab."""
    return tab.page.locator(f"#session-{chat.page.url.rpartition('/')[2]}")


def test_a_user_sees_everywhere_what_waits_and_answers_it_in_one_place(
    chat: ChatPage, new_tab: NewTab, careful: str
) -> None:
    request = ask(chat, careful)
    needs = chat.page.locator("#needs")
    expect(needs).to_contain_text("1 request waits for you", timeout=SOON)
    expect(chat.page).to_have_title(re.compile(r"^\(\d+\) "))
    expect(entry(chat, chat).locator(".dot.asks")).to_have_attribute("aria-label", "Waits for you:", timeout=SOON)
    chat.page.locator("#scroll").focus()
    needs.get_by_role("button", name="Show").click()
    expect(request).to_be_focused()
    asking = new_tab().open()
    answer = asking.ask(tool="ask_user", args=QUESTION, text="Thanks.")
    expect(answer.get_by_role("button", name="EUR")).to_be_visible(timeout=SOON)
    expect(entry(asking, chat).locator(".dot.asks")).to_be_visible()
    expect(asking.page.locator("#needs")).to_contain_text(re.compile(r"1 request waits for you · \d+ other chat"))
    listed = new_tab(viewport={"width": 390, "height": 844}).open("/chat/waiting")
    for look in ("light", "dark"):
        listed.page.emulate_media(color_scheme=look)
        assert find_violations(listed.page, look) == []
    assert listed.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    question = listed.page.locator(".waiting", has=listed.page.get_by_role("button", name="EUR")).first
    approval = listed.page.locator(".waiting", has=listed.page.locator(f"#{request.get_attribute('id')}"))
    expect(approval).to_contain_text("to the moon")
    question.get_by_label("Your own answer").fill("CHF")
    listed.page.keyboard.press("Enter")
    expect(asking.answers.last).to_contain_text("Thanks.", timeout=SOON)
    expect(asking.answers.last.locator(".input-request-answer")).to_have_text("Your answer: CHF")
    expect(entry(asking, asking).locator(".dot")).to_have_count(0, timeout=SOON)
    approval.locator(".approval").focus()
    listed.page.keyboard.press("a")
    expect(approval).to_have_count(0, timeout=SOON)
    expect(chat.answers.last).to_contain_text("Done.", timeout=SOON)
    expect(needs).not_to_contain_text("request waits", timeout=SOON)
    expect(entry(chat, chat).locator(".dot")).to_have_count(0, timeout=SOON)
