"""Login and logout with a browser."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab
from tests.support.live_server import LiveKomand


@pytest.fixture
def stranger(chromium: Browser, live_komand: LiveKomand) -> ChatPage:
    """Return a tab without a login."""
    return ChatPage(chromium.new_context().new_page(), live_komand.url)


def test_a_wrong_password_shows_an_error_without_details(stranger: ChatPage) -> None:
    stranger.open("/login").log_in("wrong")
    expect(stranger.page.get_by_role("alert")).to_have_text("Wrong user name or password.")
    expect(stranger.page.get_by_label("E-mail or user name")).to_have_value("admin")
    expect(stranger.page.get_by_label("Password")).to_be_focused()


def test_login_redirects_to_the_requested_page(stranger: ChatPage, live_komand: LiveKomand) -> None:
    stranger.open("/chat/new?agent=default").log_in(live_komand.password)
    stranger.page.wait_for_url("**/chat/new?agent=default")
    expect(stranger.box).to_be_focused()


def test_logging_out_ends_the_page_in_other_tabs_too(stranger: ChatPage, live_komand: LiveKomand) -> None:
    stranger.open("/login").log_in(live_komand.password)
    stranger.page.wait_for_url("**/chat/**")
    other = stranger.page.context.new_page()
    other.goto(live_komand.url + "/chat/new")
    stranger.page.get_by_role("button", name="Log out").click()
    stranger.page.wait_for_url("**/login")
    other.get_by_role("textbox", name="Message").fill("hello")
    other.get_by_role("textbox", name="Message").press("Enter")
    other.wait_for_url("**/login?next=**")


def test_a_logged_in_user_does_not_see_the_login(new_tab: NewTab) -> None:
    tab = new_tab().open("/login")
    expect(tab.box).to_be_visible()


def test_a_message_that_met_the_end_of_the_login_is_sent_after_the_next_one(
    stranger: ChatPage, live_komand: LiveKomand
) -> None:
    stranger.open("/login").log_in(live_komand.password)
    stranger.page.wait_for_url("**/chat/**")
    stranger.open()
    stranger.page.context.clear_cookies(name="komand_session")
    stranger.send(answering(text="After all."))
    stranger.page.wait_for_url("**/login?next=**")
    stranger.log_in(live_komand.password)
    expect(stranger.answers).to_contain_text("After all.", timeout=SOON)
