"""The pages of a whole installation in Chromium, for a superuser, an operator and a user without rights."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.chat_page import SOON, ChatPage, answering, tokens
from tests.browser.conftest import open_chromium
from tests.fakes.model_server import ModelServer
from tests.installed.installation import Installation
from tests.installed.log import LogReader
from tests.installed.people import Person
from tests.installed.surfaces.webchat import SITE, WebChat

Open = Callable[[], ChatPage]
PASSWORD = "a-long-pass-phrase-7"
FORBIDDEN = "django.request: Forbidden (Permission denied): %s"
NOT_FOUND = "django.request: Not Found: %s"
REPORT = "Sold: 17 boats."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium("--ignore-certificate-errors") as browser:  # of the proxy, also for downloads
        yield browser


@pytest.fixture
def tab(browser: Browser, installation: Installation) -> Iterator[Open]:
    """Return a function that opens tabs, each in a profile of its own, at the address that people use."""
    contexts: list[BrowserContext] = []
    tabs: list[ChatPage] = []
    url = installation.public_url or installation.url

    def open_tab() -> ChatPage:
        contexts.append(browser.new_context(reduced_motion="reduce"))
        tabs.append(ChatPage(contexts[-1].new_page(), url))
        return tabs[-1]

    yield open_tab
    for context in contexts:
        context.close()
    assert [problem for tab in tabs for problem in tab.problems] == []


@pytest.fixture
def admin(tab: Open, installation: Installation) -> ChatPage:
    """Return a tab of the superuser, logged in with the first login."""
    return log_in(tab(), "admin", installation.password)


def log_in(chat: ChatPage, name: str, password: str = PASSWORD) -> ChatPage:
    chat.open("/login").log_in(password, name)
    chat.page.wait_for_url("**/chat/**")
    return chat


def add_user(admin: ChatPage, name: str, group: str = "") -> None:
    """Add a user with a password in the admin. group: a role that opens the admin."""
    page = admin.open("/admin/auth/user/add/").page
    page.locator("[name=username]").fill(name)
    page.get_by_label("Password that you enter now").check()
    page.locator("[name=password1]").fill(PASSWORD)
    page.locator("[name=password2]").fill(PASSWORD)
    if group:
        page.get_by_label(f"{group}: ").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()


def add_web_chat(admin: ChatPage, account: str) -> None:
    """Add a chat for visitors in the admin."""
    page = admin.open("/admin/sessions_app/channelaccount/add/").page
    page.locator("[name=channel]").select_option("web")
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    page.locator("[name=account_id]").fill(account)
    page.locator("[name=web__origins]").fill(SITE)
    page.locator("[name=access]").select_option("open")
    page.locator("[name=tools]").fill("none")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/set-up/**")


def check_chat(chat: ChatPage, model_server: ModelServer) -> None:
    """Ask, reload in the middle of the answer, and see all of it."""
    chat.open()
    answer = chat.ask(tokens=40, rate=200, hold=20)
    expect(answer).to_contain_text("tok19")
    chat.page.reload()
    expect(chat.answers.last).to_contain_text("tok19")
    model_server.go_on()
    chat.wait_finished()
    expect(chat.answers).to_have_count(1)
    expect(chat.answers.last).to_contain_text(tokens(40))


def test_a_superuser_chats_downloads_and_approves(admin: ChatPage, model_server: ModelServer) -> None:
    check_chat(admin, model_server)
    page = admin.page
    admin.ask(tool="write_artifact", args={"path": "out/report.txt", "content": REPORT}, text="Done.")
    admin.wait_finished()
    page.get_by_role("button", name="Files of this chat").click()
    with page.expect_download() as downloading:
        page.get_by_role("dialog").get_by_role("link", name="Download report.txt").click()
    assert downloading.value.path().read_text() == REPORT
    page.keyboard.press("Escape")
    admin.send(answering(tool="write_artifact", args={"path": "files/plan.txt", "content": "x"}, text="Written."))
    page.locator(".approval[data-pending]").get_by_role("button", name="Allow once").click()
    expect(page.locator(".approval")).to_contain_text("Allowed once by", timeout=SOON)
    admin.wait_finished()
    expect(admin.answers.last).to_contain_text("Written.")


def test_a_user_who_is_added_chats_and_sees_no_admin(
    tab: Open, admin: ChatPage, model_server: ModelServer, log: LogReader
) -> None:
    log.expect(NOT_FOUND, "the chat of another user")
    log.expect("django.request: Forbidden: /admin/login/", "the admin of a user who is not staff")
    add_user(admin, "olga")
    admin.open()
    admin.ask(text="Mine.")
    admin.wait_finished()
    address = admin.page.url.removeprefix(admin.url)
    olga = log_in(tab(), "olga")
    check_chat(olga, model_server)
    assert olga.page.goto(olga.url + address).status == 404
    olga.open("/admin/")
    expect(olga.page).to_have_url(re.compile("/login|/admin/login"))
    expect(olga.page.get_by_text("Model providers")).to_have_count(0)


def test_an_account_that_is_added_answers_and_its_deliveries_are_listed(
    admin: ChatPage, installation: Installation
) -> None:
    add_web_chat(admin, "shop")
    visitor = WebChat(installation, Person("visitor", ""))
    visitor.account = "shop"
    assert visitor.ask('is it open? [[text="It is open."]]') == "It is open."
    row = admin.open("/admin/sessions_app/delivery/").page.get_by_role("row").filter(has_text="It is open.")
    expect(row).to_contain_text("shop")


def test_an_operator_sees_what_the_group_may_see_and_no_more(
    tab: Open, admin: ChatPage, model_server: ModelServer, log: LogReader
) -> None:
    log.expect(FORBIDDEN, "pages that take other rights")
    add_user(admin, "omar", "Operator")
    omar = log_in(tab(), "omar")
    check_chat(omar, model_server)
    for address in ("agents_app/run/", "agents_app/agent/", "sessions_app/channelaccount/", "tools_app/approval/"):
        assert omar.page.goto(f"{omar.url}/admin/{address}").status == 200
    for address in ("agents_app/modelprovider/", "agents_app/agent/add/", "auth/user/add/"):
        assert omar.page.goto(f"{omar.url}/admin/{address}").status == 403
