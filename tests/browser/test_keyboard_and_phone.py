"""The page by keyboard, on a phone, in dark mode, and its list of chats."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import SOON, ChatPage, tokens
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_keys_write_send_recall_and_stop(chat: ChatPage) -> None:
    expect(chat.box).to_be_focused()
    chat.box.press_sequentially("[[tokens=2000 rate=40]]")
    chat.box.press("Shift+Enter")
    chat.box.press_sequentially("second line")
    chat.box.press("Enter")
    expect(chat.answers.first).to_contain_text("tok5", timeout=SOON)
    expect(chat.questions.first.locator(".bubble")).to_have_text("[[tokens=2000 rate=40]]\nsecond line")
    expect(chat.box).to_be_focused()
    chat.box.press("Escape")
    chat.wait_finished()
    chat.box.press("ArrowUp")
    expect(chat.box).to_have_value("[[tokens=2000 rate=40]]\nsecond line")


def test_a_message_written_before_the_scripts_are_loaded_is_sent(new_tab: NewTab) -> None:
    chat = new_tab()
    chat.page.route(re.compile(r"/js/chat/main"), lambda route: route.abort())
    chat.open()
    chat.send("[[tokens=3]]")
    expect(chat.questions.locator(".bubble")).to_have_text(["[[tokens=3]]"], timeout=SOON)
    chat.box.fill("[[tokens=4]]")
    chat.page.get_by_role("button", name="Send", exact=True).click()
    expect(chat.questions.locator(".bubble")).to_have_text(["[[tokens=3]]", "[[tokens=4]]"], timeout=SOON)


def test_keyboard_shortcuts(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    keyboard = chat.page.keyboard
    keyboard.press("Control+k")
    expect(chat.page.get_by_role("searchbox")).to_be_focused()
    keyboard.press("Shift+Escape")
    expect(chat.box).to_be_focused()
    keyboard.press("Control+/")
    expect(chat.page.get_by_role("dialog", name="Settings and shortcuts")).to_be_visible()
    keyboard.press("Escape")
    keyboard.press("Control+Shift+s")
    expect(chat.page.get_by_role("navigation", name="Chats")).to_be_hidden()
    keyboard.press("Control+Shift+o")
    chat.page.wait_for_url("**/chat/new")


def test_shortcuts_can_be_switched_off(chat: ChatPage) -> None:
    chat.page.keyboard.press("Control+/")
    chat.page.get_by_label("Keyboard shortcuts").uncheck()
    chat.page.keyboard.press("Escape")
    chat.page.reload()
    chat.page.keyboard.press("Control+/")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)


def test_it_fits_a_phone(new_tab: NewTab) -> None:
    chat = new_tab(**PHONE).open()
    chat.ask(
        tool="echo",
        args={"text": "long " * 200},
        text="| a | b |\n|--|--|\n| " + "wide" * 60 + " | 2 |\n\n" + "w" * 300,
    )
    chat.wait_finished()
    width = "document.scrollingElement.scrollWidth"
    assert chat.page.evaluate(width) == 360
    chat.page.get_by_role("button", name="Show your chats").tap()
    drawer = chat.page.get_by_role("complementary", name="Your chats")
    expect(drawer).to_be_visible()
    expect(chat.page.get_by_role("button", name="Close the list of chats")).to_be_focused()
    chat.page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    assert _small_targets(chat) == []


def _small_targets(chat: ChatPage) -> list[str]:
    """Return the controls smaller than 44 pixels in either direction, except links in text."""
    return chat.page.evaluate(
        """() => [...document.querySelectorAll("button, summary, select, textarea, a:not(.markdown a, .skip)")]
            .filter((control) => control.checkVisibility({visibilityProperty: true}))
            .map((control) => [control, control.getBoundingClientRect()])
            .filter(([, box]) => box.width && (box.width < 43.5 || box.height < 43.5))
            .map(([control, box]) => `${control.className || control.id} ${box.width}x${box.height}`)"""
    )


@pytest.mark.parametrize(("system", "ground"), [("light", "rgb(250, 249, 246)"), ("dark", "rgb(23, 23, 22)")])
def test_the_theme_follows_the_system(new_tab: NewTab, system: str, ground: str) -> None:
    chat = new_tab(color_scheme=system).open()
    expect(chat.page.locator("body")).to_have_css("background-color", ground)


def test_a_chosen_theme_is_kept_and_set_before_the_first_paint(new_tab: NewTab) -> None:
    chat = new_tab(color_scheme="light").open()
    button = chat.page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(chat.page.locator("html")).to_have_attribute("data-theme", "dark")
    chat.page.goto(chat.page.url, wait_until="commit")
    seen = chat.page.wait_for_function("() => document.body && document.documentElement.dataset.theme")
    assert seen.json_value() == "dark"


def test_answers_can_be_shown_only_when_finished(chat: ChatPage, model_server: ModelServer) -> None:
    chat.page.get_by_role("button", name="Settings and shortcuts").click()
    chat.page.get_by_label("Show answers only when they are complete").check()
    chat.page.keyboard.press("Escape")
    chat.ask(tokens=3)
    chat.wait_finished()
    answer = chat.ask(tokens=60, rate=40, hold=30)
    expect(answer.locator(".text")).to_contain_text("tok5", timeout=SOON)
    expect(answer.locator(".text")).to_be_hidden()
    model_server.go_on()
    chat.wait_finished()
    expect(answer.locator(".markdown")).to_be_visible()


def test_the_answer_and_code_can_be_copied(new_tab: NewTab) -> None:
    chat = new_tab(permissions=["clipboard-read", "clipboard-write"]).open()
    answer = chat.ask(text="Some **code**:\n\n```python\nx = 1\n```\n")
    chat.wait_finished()
    answer.get_by_role("button", name="Copy the answer").click()
    expect(chat.page.locator("#announcer")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == "Some **code**:\n\n```python\nx = 1\n```\n"
    wrap = answer.get_by_role("button", name="Wrap")
    wrap.click()
    expect(wrap).to_have_attribute("aria-pressed", "true")
    expect(answer.locator("pre")).to_have_css("white-space-collapse", "preserve")
    expect(answer.locator("pre")).to_have_css("text-wrap-mode", "wrap")
    answer.get_by_role("button", name="Copy", exact=True).click()
    expect(answer.locator(".copy-code")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == "x = 1\n"


def test_reading_older_text_is_not_disturbed_by_new_text(chat: ChatPage) -> None:
    chat.ask(text="line\n\n" * 80)
    chat.wait_finished()
    chat.ask(tokens=300, rate=60)
    view = chat.page.locator("#scroll")
    view.evaluate("view => view.scrollTop = 0")
    jump = chat.page.get_by_role("button", name="Latest message")
    expect(jump).to_be_visible(timeout=SOON)
    assert view.evaluate("view => view.scrollTop") == 0
    jump.click()
    expect(jump).to_be_hidden()
    assert view.evaluate("view => view.scrollHeight - view.scrollTop - view.clientHeight") < 60


def test_an_opened_card_stays_in_place(chat: ChatPage) -> None:
    answer = chat.ask(tool="echo", args={"text": "a\n" * 40}, text="line\n\n" * 12)
    chat.wait_finished()
    summary = answer.locator(".call summary").first
    summary.scroll_into_view_if_needed()
    before = summary.bounding_box()
    summary.click()
    expect(answer.locator(".json").first).to_be_visible()
    assert summary.bounding_box() == before


def test_chats_are_renamed_searched_and_deleted_in_the_list(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    address = chat.page.url
    entry = chat.page.locator(f"#session-{address.rpartition('/')[2]}")
    entry.hover()
    entry.locator(".menu summary").click()
    entry.get_by_role("button", name="Rename").click()
    entry.get_by_label("New title").fill("Plans for spring")
    entry.get_by_label("New title").press("Enter")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Plans for spring")
    chat.page.get_by_role("searchbox").fill("FOR SPR")
    expect(chat.page.locator(".session")).to_have_count(1)
    entry.hover()
    entry.locator(".menu summary").click()
    entry.get_by_role("button", name="Delete").click()
    dialog = chat.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete “Plans for spring”?")
    dialog.get_by_role("button", name="Delete").click()
    chat.page.wait_for_url(lambda url: url != address)
    expect(chat.page.get_by_text("Plans for spring")).to_have_count(0)
    assert chat.page.goto(address).status == 404


def test_a_draft_survives_a_reload(chat: ChatPage) -> None:
    chat.box.fill("half a thought")
    chat.page.reload()
    expect(chat.box).to_have_value("half a thought")


def test_screen_readers_announce_the_status_and_then_the_answer(chat: ChatPage, model_server: ModelServer) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    chat.ask(tokens=60, rate=40, hold=30)
    announcer = chat.page.locator("#announcer")
    expect(announcer).to_have_text("Thinking…", timeout=SOON)
    expect(chat.page.get_by_role("log")).to_have_attribute("aria-busy", "true")
    expect(chat.page.get_by_role("log")).to_have_attribute("aria-live", "off")
    model_server.go_on()
    expect(announcer).to_have_text(re.compile(re.escape(tokens(40))), timeout=SOON)
    chat.ask(text="17 × 23 is **391**.\n\n```python\nx = 1\n```")
    chat.wait_finished()
    expect(announcer).to_have_text("17 × 23 is 391. python x = 1")


def test_a_question_is_answered_by_pressing_an_option(chat: ChatPage) -> None:
    answer = chat.ask(tool="ask_user", args={"question": "Which <b>colour</b>?", "options": ["Red", "Dark blue"]})
    option = answer.get_by_role("button", name="Dark blue")
    expect(option).to_be_visible(timeout=SOON)
    expect(answer.locator(".input-request-text")).to_have_text("Which <b>colour</b>?")
    expect(answer.locator(".status-text")).to_have_text("Waiting for your answer")
    option.click()
    chat.wait_finished()
    expect(chat.answers).to_have_count(1)
    expect(chat.questions).to_have_count(1)
    expect(answer.locator(".input-request-answer")).to_contain_text("Dark blue")
    expect(answer.locator(".answer-choice")).to_have_count(0)
    chat.page.reload()
    expect(chat.answers.first.locator(".input-request-answer")).to_contain_text("Dark blue")


def test_files_are_listed_as_they_are_written_and_lead_to_their_call(new_tab: NewTab) -> None:
    chat = new_tab(**PHONE).open()
    chat.ask(tokens=3)
    chat.wait_finished()
    button, dialog = chat.page.get_by_role("button", name="Files of this chat"), chat.page.get_by_role("dialog")
    button.tap()
    expect(dialog).to_contain_text("There are no files yet")
    chat.page.keyboard.press("Escape")
    expect(button).to_be_focused()
    name = f"report-{'long' * 20}.md"
    chat.ask(tool="write_artifact", args={"path": f"out/{name}", "content": "# Moon"}, text="Done.")
    chat.wait_finished()
    expect(chat.page.locator("#files-count")).to_have_text("1")
    button.tap()
    expect(dialog).to_contain_text("6 bytes")
    assert chat.page.evaluate("document.scrollingElement.scrollWidth") == 360
    assert dialog.evaluate("dialog => dialog.scrollWidth - dialog.clientWidth") == 0
    with chat.page.expect_download() as downloading:
        dialog.get_by_role("link", name=f"Download {name}", exact=True).tap()
    assert downloading.value.suggested_filename == name
    dialog.get_by_role("link", name="Show in chat").tap()
    expect(dialog).to_be_hidden()
    expect(chat.page.locator(".call summary")).to_be_focused()
