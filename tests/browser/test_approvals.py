"""A request for approval on the page: shown to all viewers, decided by click or key, kept over a reload."""

import re
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SECRET = "sk-user-abcdefghijklmnopqrstuvwx"


def ask(tab: ChatPage, agent: str, **directives: Any) -> Locator:
    """Make the agent request an approval, and return its element."""
    tab.open(f"/chat/new?agent={agent}")
    tab.send(answering(**{"tool": "echo", "args": {"text": "to the moon"}, "text": "Done.", **directives}))
    request = tab.page.locator(".approval[data-pending]")
    expect(request).to_be_visible(timeout=SOON)
    return request


def test_allowing_once_runs_the_call_and_all_viewers_see_it(chat: ChatPage, new_tab: NewTab, careful: str) -> None:
    request = ask(chat, careful)
    expect(request).to_contain_text("to the moon")
    expect(request).to_contain_text(re.compile(r"expires in 2[34] h"))
    expect(chat.page.locator(".call-state")).to_have_text("needs approval")
    expect(chat.page.locator(".status")).to_contain_text("Waiting for your decision")
    other = new_tab().open(chat.page.url.removeprefix(chat.url))
    expect(other.page.locator(".approval[data-pending]")).to_be_visible()
    request.get_by_role("button", name="Allow once").click()
    for tab in (chat, other):
        expect(tab.page.locator(".approval")).to_contain_text("Allowed once by", timeout=SOON)
        tab.wait_finished()
        expect(tab.page.locator(".call-state")).to_contain_text("done")
        expect(tab.answers.last).to_contain_text("Done.")


def test_it_appears_live_and_survives_a_reload(chat: ChatPage, new_tab: NewTab, careful: str) -> None:
    chat.open(f"/chat/new?agent={careful}")
    chat.ask(tokens=3)
    chat.wait_finished()
    other = new_tab().open(chat.page.url.removeprefix(chat.url))
    chat.send(answering(tool="echo", args={"text": f"with {SECRET}"}, text="Fine."))
    for tab in (chat, other):
        expect(tab.page.locator(".approval[data-pending]")).to_be_visible(timeout=SOON)
        expect(tab.page.locator("#announcer")).to_have_text(
            re.compile(r"Allow echo\? .+ risk\. On the request, press A or D\.")
        )
    chat.page.reload()
    expect(chat.page.locator(".approval[data-pending]")).to_be_visible()
    assert SECRET not in chat.answers.last.inner_text()
    chat.page.get_by_role("button", name="Allow for this run").click()
    expect(other.page.locator(".approval")).to_contain_text("Allowed for this run by", timeout=SOON)


def test_a_denial_with_a_note_is_given_by_keyboard_alone(chat: ChatPage, careful: str) -> None:
    request = ask(chat, careful)
    request.get_by_text("Deny with a note").focus()
    chat.page.keyboard.press("Enter")
    note = request.get_by_label("Note to the agent")
    note.focus()
    chat.page.keyboard.type("add a date, please")  # with the letters that decide elsewhere
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator(".approval")).to_contain_text("add a date, please", timeout=SOON)
    chat.wait_finished()
    expect(chat.page.locator(".call-state")).to_have_text("denied")


def test_single_keys_decide_while_the_request_has_the_focus(chat: ChatPage, careful: str) -> None:
    request = ask(chat, careful)
    expect(chat.box).to_be_focused()  # a request never takes the focus away
    chat.page.keyboard.press("d")
    expect(chat.box).to_have_value("d")
    chat.page.get_by_role("link", name="Skip to the request for approval").focus()
    chat.page.keyboard.press("Enter")
    request.focus()
    chat.page.keyboard.press("d")
    expect(chat.page.locator(".approval")).to_contain_text("Denied by", timeout=SOON)
    chat.wait_finished()


def test_a_late_click_shows_the_earlier_decision(chat: ChatPage, new_tab: NewTab, careful: str) -> None:
    request = ask(chat, careful)
    chat.expects_refusals = True
    late = new_tab().open(chat.page.url.removeprefix(chat.url))
    late.expects_refusals = True
    late.page.route_web_socket(re.compile(r"/ws/chat/"), lambda socket: None)  # hears of nothing any more
    late.page.reload()
    request.get_by_role("button", name="Deny", exact=True).first.click()
    chat.wait_finished()
    late.page.get_by_role("button", name="Allow once").click()
    expect(late.page.locator("#note")).to_contain_text("This was decided already. Denied by", timeout=SOON)


def test_it_fits_a_phone(new_tab: NewTab, careful: str) -> None:
    chat = new_tab(**PHONE).open()
    request = ask(chat, careful, args={"text": "long " * 300 + "w" * 200})
    assert chat.page.evaluate("document.scrollingElement.scrollWidth") == 360
    small = request.locator("button, summary").evaluate_all(
        "controls => controls.filter(c => c.checkVisibility() && c.getBoundingClientRect().height < 43.5).length"
    )
    assert small == 0
    request.get_by_role("button", name="Allow once").tap()
    chat.wait_finished()
