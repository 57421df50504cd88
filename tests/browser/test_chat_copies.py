"""A chat leaves the page: exported, shared by a link, printed, forked; and the marks of the list of chats."""

import json
from pathlib import Path

from playwright.sync_api import Browser, Route, expect

from tests.browser.chat_page import ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_accessibility import EVERYTHING, NARROW, WIDE, find_violations
from tests.browser.test_conversation import TWO_TOOLS
from tests.support.live_server import LiveKomand

_GONE = 410


def test_a_chat_is_exported_shared_revoked_forked_pinned_and_unread(
    new_tab: NewTab, chromium: Browser, live_komand: LiveKomand
) -> None:
    chat = new_tab(color_scheme="light", viewport=WIDE).open()
    page = chat.page
    chat.ask(tools=TWO_TOOLS, text=EVERYTHING)
    chat.wait_finished()
    address = page.url

    page.get_by_role("button", name="Export or share this chat").click()
    dialog = page.get_by_role("dialog", name="Export or share")
    expect(dialog.get_by_text("Share by link")).to_be_visible()
    assert find_violations(page, "dialog") == []
    dialog.get_by_role("radio", name="JSON").check()
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download").click()
    exported = json.loads(Path(download.value.path()).read_text())
    assert [part["kind"] for part in exported["turns"][0]["answer"]] == ["text", "toolCall", "toolCall", "text"]

    dialog.locator("form", has_text="Create a link").get_by_label("With tool calls").check()
    dialog.get_by_role("button", name="Create a link").click()
    link = dialog.get_by_label("Link to this chat").input_value()
    assert find_violations(page, "dialog with a link") == []

    visitor = chromium.new_context(color_scheme="light", viewport=WIDE).new_page()
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="Heading").first).to_be_visible()
    visitor.locator(".call summary").first.click()
    found = find_violations(visitor, "shared")
    visitor.emulate_media(color_scheme="dark")
    found += find_violations(visitor, "shared, dark", runOnly=["color-contrast"])
    visitor.set_viewport_size(NARROW)
    assert visitor.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found + find_violations(visitor, "shared, narrow") == []

    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog.get_by_role("button", name="Revoke")).to_have_count(0)
    gone = visitor.reload()
    assert gone is not None and gone.status == _GONE
    assert find_violations(visitor, "revoked") == []
    visitor.context.close()
    page.keyboard.press("Escape")

    page.emulate_media(media="print")
    for hidden in ("#sidebar", "#composer", "#open-leave", ".answer-foot >> nth=0"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator(".call .call-body").last).to_be_visible()
    page.emulate_media(media="screen")

    page.get_by_role("button", name="Fork the chat after this answer").click()
    page.wait_for_url(lambda url: "/chat/" in url and url != address)
    expect(chat.answers).to_have_count(1)
    expect(chat.answers.first).to_contain_text("quoted")
    chat.ask(text="The fork goes on.")
    chat.wait_finished()

    source = page.locator(f"#session-{address.rpartition('/')[2]}")
    source.hover()
    source.locator(".menu summary").click()
    source.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("#sessions section").first).to_contain_text("Pinned")
    expect(page.locator("#sessions section").first.locator("li")).to_have_count(1)
    source.hover()
    source.locator(".menu summary").click()
    source.get_by_role("button", name="Mark as unread").click()
    expect(source.get_by_role("img", name="Unread:")).to_be_visible()
    assert find_violations(page, "pinned and unread") == []
    source.locator("a").click()
    page.wait_for_url(address)
    expect(source.get_by_role("img", name="Unread:")).to_have_count(0)
    page.get_by_role("link", name="New chat").click()
    page.wait_for_url("**/chat/new")
    expect(source).to_be_visible()
    expect(source.get_by_role("img", name="Unread:")).to_have_count(0)
    source.hover()
    source.locator(".menu summary").click()
    source.get_by_role("button", name="Unpin").click()
    expect(page.locator("#sessions")).not_to_contain_text("Pinned")


def test_a_list_that_was_requested_before_a_pin_does_not_replace_the_newer_one(chat: ChatPage) -> None:
    page, held, is_open = chat.page, list[Route](), False
    chat.ask(text="One.")
    chat.wait_finished()
    page.route("**/chat/sessions*", lambda route: route.continue_() if is_open else held.append(route))
    page.evaluate("htmx.trigger('#search', 'refresh')")
    while not held:
        page.wait_for_timeout(20)  # Playwright calls the handler of a route while it waits
    source = page.locator(f"#session-{page.url.rpartition('/')[2]}")
    source.hover()
    source.locator(".menu summary").click()
    expect(source.locator(".menu-items")).to_be_visible()
    # Until here the page may have asked again, as the end of an answer makes it do. It does not while a menu is open.
    is_open, newest = True, held[-1]
    older = newest.fetch()
    source.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("#sessions section").first).to_contain_text("Pinned")
    with page.expect_response("**/chat/sessions*"), page.expect_request("**/chat/sessions*"):  # for one that is newer
        newest.fulfill(response=older)
    expect(page.locator("#sessions section").first).to_contain_text("Pinned")
