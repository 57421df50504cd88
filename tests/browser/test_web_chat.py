"""The web chat on a page of another site: ask, see the answer come, reload, press a button."""

import json
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, expect

from tests.browser.chat_page import answering
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
QUESTION = answering(tool="ask_user", args={"question": "Which colour?", "options": ["Red", "Blue"]}, text="Painted.")


_VIEWPORT = '<meta name="viewport" content="width=device-width">'


class Shop(FakeServer):
    """A site of somebody else. script: the address of the chat's script."""

    script = ""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        include = f'<script src="{self.script}" async data-name="Ann"></script>'
        page = f'<!doctype html><html lang="en"><title>Shop</title>{_VIEWPORT}<h1>Shop</h1>{include}</html>'
        policy = f"default-src 'none'; script-src {self.script}; frame-src {self.script.partition('/webchat')[0]}"
        return 200, {"Content-Type": "text/html", "Content-Security-Policy": policy}, page.encode()


@pytest.fixture(scope="module")
def shop(live_komand: LiveKomand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Shop() as server:
        server.script = f"{live_komand.url}/webchat/shop/embed.js"
        config = tmp_path_factory.mktemp("shop") / "config.json"
        config.write_text(json.dumps({"origins": [_address(server)], "greeting": "How can we help?"}))
        options = ("--config", str(config), "--access", "open", "--tools", "ask_user")
        added = live_komand.manage("channel", "add", "web", "shop", *options)
        assert added.returncode == 0, added.stderr
        yield server


def _address(server: Shop) -> str:
    """Return the origin of the shop: another site than the chat's for a browser, which compares the names of hosts."""
    return f"http://localhost:{server.url.rpartition(':')[2]}"


Open = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser, shop: Shop) -> Iterator[Open]:
    """Return a function that opens the shop in a browser profile of its own. No page may have problems."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def open_page(**options: object) -> Page:
        contexts.append(chromium.new_context(reduced_motion="reduce", **options))  # type: ignore[arg-type] # any options
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.goto(_address(shop))
        page.get_by_role("button", name="Chat").click()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def chat_of(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


def send(chat: FrameLocator, text: str) -> None:
    box = chat.get_by_role("textbox", name="Message")
    expect(box).to_be_visible()
    box.fill(text)
    box.press("Enter")


def test_a_visitor_asks_and_finds_the_answer_again(visit: Open, model_server: ModelServer) -> None:
    page = visit()
    chat = chat_of(page)
    expect(chat.get_by_text("How can we help?")).to_be_visible()
    send(chat, answering(text="The **answer** is *seven*. " * 8, rate=40, hold=10))
    growing = chat.locator(".answer .growing")
    expect(growing).to_contain_text("The **answer**")
    expect(chat.get_by_role("button", name="Stop")).to_be_visible()
    model_server.go_on()
    expect(chat.locator(".answer .markdown strong").first).to_have_text("answer")
    expect(chat.get_by_role("button", name="Stop")).to_be_hidden()
    expect(chat.locator("#announcer")).to_contain_text("The answer is seven.")
    page.reload()
    chat = chat_of(page)  # the site opens it again
    expect(chat.locator(".answer .markdown")).to_contain_text("The answer is seven.")
    expect(chat.locator(".own")).to_have_count(1)
    chat.get_by_role("button", name="New chat").click()
    expect(chat.get_by_text("How can we help?")).to_be_visible()
    send(chat, answering(text="Another one."))
    expect(chat.locator(".answer .markdown")).to_have_text("Another one.")


def test_a_question_is_answered_by_a_button_on_a_phone(visit: Open) -> None:
    page = visit(**PHONE)
    chat = chat_of(page)
    send(chat, QUESTION)
    expect(chat.get_by_role("group", name="Answers")).to_be_visible()
    expect(page.get_by_role("button", name="Chat")).to_be_hidden()  # the chat fills a small screen
    chat.get_by_role("group", name="Answers").get_by_role("button", name="Blue").click()
    expect(chat.locator(".request .outcome")).to_have_text("Answered")
    expect(chat.locator(".answer .markdown")).to_contain_text("Painted.")
    expect(chat.locator(".own").last).to_contain_text("Blue")
    chat.get_by_role("textbox", name="Message").press("Escape")
    expect(page.locator("iframe")).to_be_hidden()
    expect(page.get_by_role("button", name="Chat")).to_be_focused()


def test_a_site_that_is_not_listed_cannot_show_it(chromium: Browser, shop: Shop) -> None:
    context = chromium.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda line: refused.append(line.text))
    page.goto(shop.url)  # by its address, which is another origin
    with page.expect_console_message(lambda line: "frame-ancestors" in line.text):
        page.get_by_role("button", name="Chat").click()
    context.close()
