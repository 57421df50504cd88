"""The web chat on a page of another site: its visitors, their devices and networks, and the sites around it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Frame, FrameLocator, Locator, Page, expect

from tests.browser.chat_page import answering
from tests.browser.component_site import picture
from tests.browser.test_accessibility import EVERYTHING, find_violations
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
IS_MODAL = "document.querySelector('[data-komand-chat]').shadowRoot.querySelector('dialog').matches(':modal')"
QUESTION = answering(tool="ask_user", args={"question": "Which colour?", "options": ["Red", "Blue"]}, text="Painted.")


_VIEWPORT = '<meta name="viewport" content="width=device-width">'
# Of a site that styles all elements, and lets none of another site in that does not agree.
_STYLES = "button, iframe, dialog, div { display: none !important; width: 1px !important; opacity: 0 !important }"
_ISOLATED = {"Cross-Origin-Embedder-Policy": "require-corp", "Cross-Origin-Opener-Policy": "same-origin"}
DENY_STORAGE = """for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, {
    get() { throw new DOMException("denied", "SecurityError") },
})"""

SET_HIDDEN = """isHidden => {
    Object.defineProperty(Document.prototype, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


class Shop(FakeServer):
    """A site of somebody else. script: the address of the chat's script. Its page /odd makes everything difficult."""

    script = ""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        is_odd = request.path == "/odd"
        given = {"context": {"cart": "3 items"}, "texts": {"attach": "<b>Datei"}}
        attributes = " ".join(f"data-{name}='{json.dumps(value)}'" for name, value in given.items())
        include = f'<script src="{self.script}" async data-name="Ann" {attributes}></script>' * (2 if is_odd else 1)
        head = f"<title>Shop</title>{_VIEWPORT}" + (f'<style nonce="n">{_STYLES}</style>' if is_odd else "")
        body = f"<main><h1>Shop</h1><a href='/'>Home</a></main>{include}"
        page = f"<!doctype html><html lang='en' dir='{'rtl' if is_odd else 'ltr'}'>{head}{body}</html>"
        policy = f"default-src 'none'; script-src {self.script}; frame-src {self.script.partition('/webchat')[0]}"
        policy += "; style-src 'nonce-n'" if is_odd else ""
        headers = {"Content-Type": "text/html", "Content-Security-Policy": policy, **(_ISOLATED if is_odd else {})}
        return 200, headers, page.encode()


@pytest.fixture(scope="module")
def shop(live_komand: LiveKomand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Shop() as server:
        server.script = f"{live_komand.url}/webchat/shop/embed.js"
        config = tmp_path_factory.mktemp("shop") / "config.json"
        shown = {"greeting": "How can we help?", "agent_name": "Ada", "picture": picture()}
        config.write_text(json.dumps({"origins": [_address(server)], **shown}))
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
    """Return a function that opens the shop in a browser profile of its own. No page may have problems.

    path: of the shop's page. script: runs in every page before its own. Requests that fail are no problem.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def note(kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text and "ERR_INCOMPLETE_CHUNKED" not in text:
            problems.append(text)

    def open_page(path: str = "/", script: str = "", **options: object) -> Page:
        contexts.append(chromium.new_context(reduced_motion="reduce", **options))  # type: ignore[arg-type] # any options
        contexts[-1].on("weberror", lambda error: problems.append(str(error.error)))
        contexts[-1].on("console", lambda line: note(line.type, line.text))
        contexts[-1].add_init_script(script)
        page = contexts[-1].new_page()
        page.goto(_address(shop) + path)
        page.get_by_role("button", name="Chat").click()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def chat_of(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


def box_of(chat: FrameLocator) -> Locator:
    return chat.get_by_role("textbox", name="Message")


def answers_of(chat: FrameLocator) -> Locator:
    return chat.locator(".answer .markdown")


def frame_of(page: Page) -> Frame:
    expect(box_of(chat_of(page))).to_be_visible()
    return next(frame for frame in page.frames if "/widget" in frame.url)


def send(chat: FrameLocator, text: str) -> None:
    box = box_of(chat)
    expect(box).to_be_visible()
    box.fill(text)
    box.press("Enter")


def test_a_visitor_asks_and_finds_the_answer_again(visit: Open, model_server: ModelServer) -> None:
    page = visit()
    chat = chat_of(page)
    expect(chat.get_by_text("How can we help?")).to_be_visible()
    expect(chat.get_by_text("Ada", exact=True)).to_be_visible()
    expect(chat.get_by_role("button", name="<b>Datei")).to_be_visible()
    expect(chat.locator("#picture")).to_be_visible()
    send(chat, answering(text="The **answer** is *seven*. " * 8, rate=40, hold=10))
    growing = chat.locator(".answer[data-open] .markdown")
    expect(growing.locator("strong").first).to_have_text("answer")  # rendered while it grows
    expect(chat.get_by_role("button", name="Stop")).to_be_visible()
    model_server.go_on()
    expect(chat.locator(".answer .markdown strong").first).to_have_text("answer")
    asked = json.dumps(model_server.messages)
    assert f"Address: {page.url}" in asked and "Title: Shop" in asked and "cart: 3 items" in asked
    expect(chat.get_by_role("button", name="Stop")).to_be_hidden()
    expect(chat.locator("#announcer")).to_contain_text("The answer is seven.")
    page.reload()
    chat = chat_of(page)  # the site opens it again
    expect(chat.locator(".answer .markdown")).to_contain_text("The answer is seven.")
    expect(chat.locator(".own")).to_have_count(1)
    chat.get_by_role("button", name="New chat").click()
    chat.get_by_role("button", name="Begin a new chat").click()
    expect(chat.get_by_text("How can we help?")).to_be_visible()
    send(chat, answering(text="Another one."))
    expect(chat.locator(".answer .markdown")).to_have_text("Another one.")


def test_a_question_is_answered_by_a_button_on_a_phone(visit: Open) -> None:
    page = visit(**PHONE)
    chat = chat_of(page)
    send(chat, QUESTION)
    expect(chat.get_by_role("group", name="Answers")).to_be_visible()
    assert page.evaluate(IS_MODAL), "the chat fills a small screen"
    chat.get_by_role("group", name="Answers").get_by_role("button", name="Blue").click()
    expect(chat.locator(".request .outcome")).to_have_text("You chose Blue")
    expect(chat.locator(".own").last).to_contain_text("Blue")
    expect(chat.locator("#log > li")).to_have_count(5)
    in_order = ["own", "answer", "request", "own", "answer"]  # the text before a question stays before it
    assert [item.get_attribute("class") for item in chat.locator("#log > li").all()] == in_order
    expect(chat.locator(".answer .markdown")).to_have_text(["Painted.", "Painted."])
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
    with page.expect_console_message(lambda line: f"Komand: add {shop.url} to the origins of" in line.text):
        pass
    expect(page.get_by_role("status")).to_have_text("The chat cannot be reached. Please try again later.")
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_role("button", name="Chat")).to_be_focused()
    context.close()


def test_its_pages_are_accessible(visit: Open) -> None:
    page = visit(color_scheme="light")
    frame, chat = frame_of(page), chat_of(page)
    assert find_violations(page, "the site") + find_violations(frame, "empty") == []
    send(chat, answering(text=EVERYTHING))
    expect(answers_of(chat)).to_be_visible()
    send(chat, QUESTION)
    expect(chat.get_by_role("group", name="Answers")).to_be_visible()
    chat.locator("#files").set_input_files(files=[{"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"}])
    found = find_violations(frame, "light")
    page.emulate_media(color_scheme="dark")
    found += find_violations(frame, "dark", runOnly=["color-contrast"])
    page.set_viewport_size({"width": 320, "height": 480})
    assert found + find_violations(frame, "small") == []
    log = chat.get_by_role("group", name="Messages")
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2, "the question is in view"


def test_it_is_used_by_the_keyboard_alone(visit: Open) -> None:
    page = visit()
    chat, launcher = chat_of(page), page.get_by_role("button", name="Chat")
    expect(box_of(chat)).to_be_focused()
    page.keyboard.press("Escape")
    expect(launcher).to_be_focused()
    expect(launcher).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(box_of(chat)).to_be_focused()
    page.keyboard.type(answering(text="word " * 40, rate=40, hold=5))
    page.keyboard.press("Enter")
    stop = chat.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    expect(chat.locator("#announcer")).to_be_empty()  # not each piece of an answer is announced
    stop.press("Enter")
    expect(chat.locator(".answer[data-open]")).to_have_count(0)
    expect(chat.get_by_role("group", name="Messages")).to_be_focused()


def test_a_site_with_strict_rules_of_its_own_shows_it(visit: Open) -> None:
    page = visit("/odd", DENY_STORAGE)
    chat = chat_of(page)
    send(chat, answering(text="It works."))
    expect(answers_of(chat)).to_have_text("It works.")
    assert page.locator("iframe").count() == page.get_by_role("button", name="Chat").count() == 1
    place, button = page.locator("iframe").bounding_box(), page.get_by_role("button", name="Chat").bounding_box()
    assert place and button
    assert (place["x"], place["width"], button["x"]) == (20, 380, 20), "it is on the other side of such a site"
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(answers_of(chat)).to_have_text("It works.")


def test_texts_are_written_in_their_own_direction_and_long_ones_end_in_view(visit: Open) -> None:
    chat = chat_of(visit())
    send(chat, "\u05e9\u05dc\u05d5\u05dd (abc)! " + answering(tokens=4000))
    direction = "part => getComputedStyle(part).direction"
    assert chat.locator(".bubble").evaluate(direction) == "rtl"
    expect(answers_of(chat)).to_contain_text("tok3999")
    log = chat.get_by_role("group", name="Messages")
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2
    assert log.evaluate("log => log.scrollWidth - log.clientWidth") == 0
    box_of(chat).fill("\u05e9\u05dc\u05d5\u05dd")
    assert box_of(chat).evaluate(direction) == "rtl"


def test_messages_sent_at_once_go_to_one_conversation(visit: Open) -> None:
    chat = chat_of(visit())
    send(chat, answering(text="One."))
    send(chat, answering(text="Two."))
    expect(answers_of(chat)).to_have_text(["One.", "Two."])
    box_of(chat).fill(answering(text="Three."))
    chat.get_by_role("button", name="Send").dblclick()
    expect(answers_of(chat)).to_have_text(["One.", "Two.", "Three."])
    expect(chat.locator(".own")).to_have_count(3)


def test_two_tabs_show_one_conversation(visit: Open, shop: Shop) -> None:
    page = visit()
    other = page.context.new_page()
    other.goto(_address(shop))
    other.get_by_role("button", name="Chat").click()
    chats = [chat_of(page), chat_of(other)]
    expect(box_of(chats[1])).to_be_visible()
    send(chats[0], answering(text="One."))
    expect(answers_of(chats[1])).to_have_text("One.")
    send(chats[1], answering(text="Two."))
    expect(answers_of(chats[0])).to_have_text(["One.", "Two."])
    chats[0].get_by_role("button", name="New chat").click()
    chats[0].get_by_role("button", name="Begin a new chat").click()
    expect(answers_of(chats[1])).to_have_count(0)
    send(chats[1], answering(text="Three."))
    expect(answers_of(chats[0])).to_have_text("Three.")


def test_a_hidden_tab_leaves_its_connection_to_others(visit: Open) -> None:
    page = visit()
    chat, frame = chat_of(page), frame_of(page)
    page.clock.install()
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    with page.expect_event("requestfailed", lambda request: "/events" in request.url):
        frame.evaluate(SET_HIDDEN, True)  # an argument of the page's function
        page.clock.fast_forward(31_000)
    with page.expect_request(lambda request: "/events" in request.url):
        frame.evaluate(SET_HIDDEN, False)
    send(chat, answering(text="Two."))
    expect(answers_of(chat)).to_have_text(["One.", "Two."])


def test_a_message_without_a_network_is_sent_when_it_is_back(visit: Open) -> None:
    page = visit()
    chat, problem = chat_of(page), chat_of(page).get_by_role("alert")
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    page.context.set_offline(True)
    send(chat, answering(text="Two."))
    expect(problem).to_have_text("The chat is not reachable. Try again.")
    send(chat, "/help")
    expect(box_of(chat)).to_have_value("/help")
    page.context.set_offline(False)
    expect(answers_of(chat)).to_have_text(["One.", "Two."])
    expect(chat.locator(".own")).to_have_count(2)
    expect(problem).to_be_hidden()


def test_a_message_that_was_not_sent_is_sent_by_the_next_page(visit: Open) -> None:
    page = visit()
    chat = chat_of(page)
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    page.context.route("**/messages", lambda route: route.abort())
    send(chat, answering(text="Two."))
    expect(chat.get_by_role("button", name="Not sent. Try again")).to_be_visible()
    page.context.unroute("**/messages")
    page.reload()
    expect(answers_of(chat_of(page))).to_have_text(["One.", "Two."])


def test_a_message_is_sent_by_the_next_page_if_this_one_is_left_before_the_answer(visit: Open) -> None:
    page = visit()
    chat = chat_of(page)
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    page.context.route("**/messages", lambda route: None)  # it never arrives
    with page.context.expect_event("request", lambda request: request.url.endswith("/messages")):
        send(chat, answering(text="Two."))
    page.context.unroute("**/messages")
    page.reload()
    expect(answers_of(chat_of(page))).to_have_text(["One.", "Two."])


def test_a_new_conversation_has_no_message_of_the_one_before(visit: Open) -> None:
    page = visit()
    chat = chat_of(page)
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    page.context.route("**/messages", lambda route: route.abort())
    send(chat, answering(text="Two."))
    expect(chat.get_by_role("button", name="Not sent. Try again")).to_be_visible()
    page.context.unroute("**/messages")
    send(chat, "/new")
    expect(chat.locator(".own")).to_have_count(0)
    page.reload()
    send(chat_of(page), answering(text="Three."))
    expect(answers_of(chat_of(page))).to_have_text(["Three."])


def test_what_the_server_would_refuse_stays_in_the_box(visit: Open) -> None:
    chat = chat_of(visit())
    problem = chat.get_by_role("alert")
    send(chat, "x" * 8001)
    expect(problem).to_have_text("A message can have at most 8,000 characters. This one has 8,001.")
    expect(box_of(chat)).to_have_value("x" * 8001)
    files: list[Any] = [
        {"name": name, "mimeType": "application/x-thing", "buffer": data}
        for name, data in (("large.bin", b"x" * 10_000_001), ("odd.bin", b"\x7fELF" + bytes(100)))
    ]
    box_of(chat).clear()
    chat.locator("#files").set_input_files(files=files)
    expect(problem).to_have_text("large.bin is too large. A file can have at most 10 MB.")
    send(chat, "Look at this")
    expect(problem).to_contain_text("are not accepted")
    expect(box_of(chat)).to_have_value("Look at this")
    expect(chat.get_by_text("Attached: odd.bin")).to_be_visible()
    chat.get_by_role("button", name="Remove").click()
    send(chat, answering(text="Without it."))
    expect(answers_of(chat)).to_have_text("Without it.")
    expect(problem).to_be_hidden()


def test_a_token_that_has_ended_begins_another_conversation(visit: Open) -> None:
    page = visit()
    chat = chat_of(page)
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    page.evaluate("""() => {
        const [key] = Object.keys(localStorage);
        localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), token: "x" }));
    }""")
    page.reload()
    expect(chat.get_by_text("The last conversation has ended. This is a new one.")).to_be_visible()
    expect(chat.get_by_role("alert")).to_be_hidden()
    send(chat, answering(text="Two."))
    expect(answers_of(chat)).to_have_text("Two.")


def test_it_follows_again_when_the_server_has_restarted(visit: Open, live_komand: LiveKomand) -> None:
    chat = chat_of(visit())
    send(chat, answering(text="One."))
    expect(answers_of(chat)).to_have_text("One.")
    pid = live_komand.kill("web")
    expect(chat.get_by_role("alert")).to_have_text("The connection was lost. It is being restored…")
    live_komand.wait_healthy("web", other_than=pid)
    expect(chat.get_by_role("alert")).to_be_hidden()
    send(chat, answering(text="Two."))
    expect(answers_of(chat)).to_have_text(["One.", "Two."])
