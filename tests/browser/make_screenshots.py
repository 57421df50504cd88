"""Takes the screenshots of the documentation from real pages: `python -m tests.browser.make_screenshots [NAME …]`.

Those of `DEMO` show a new installation with its built-in model. All others show one whose model is the fake model
server, with conversations that the demo model cannot have.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
from PIL import Image
from playwright.sync_api import Browser, FrameLocator, Page, expect, sync_playwright

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, start_komand
from tests.support.units import free_port

IMAGES = Path(__file__).parents[2] / "docs" / "images"
EARLIER = ["What does a webhook do?", "What time is it in London and in New York?", "What is 2**64 - 1?"]
SHOWN = "What is 17*23 and what time is it in Tokyo?"
SIZE = {"width": 1240, "height": 930}
PHONE = {"width": 390, "height": 844}
REPORT = """\
# Prices of three suppliers

| Supplier | Price | Delivery |
| --- | ---: | --- |
| North | 41.20 € | 2 days |
| Harbour | 39.90 € | 5 days |
| Ridge | 44.00 € | 1 day |

**Harbour** is the cheapest, **Ridge** the fastest. The average is

$$\\bar p = \\frac{41.20 + 39.90 + 44.00}{3} = 41.70$$
"""
COMPARED = "I compared the three: **Harbour** is the cheapest at 39.90 €, **Ridge** the fastest with one day."


ORDER = "Prepare the order: prices, a form, and what the market does."
SAVE = "Save the comparison as files/prices.md, please."
COMPARE = "Compare the prices of our three suppliers."
PLANT = "Which plant is easy and likes shade?"
COST = "What do 200 pieces of Harbour cost?"
PRICES, FORM, MARKET = "List the prices of all parts.", "Write the order form.", "Look up what the market does."


def _launch(name: str, title: str, instruction: str) -> list[Any]:
    return ["launch_workstream", {"id": name, "name": title, "instruction": instruction}]


# Directives of the fake model by the text of the last message, see tests/fakes/directives.py.
ANSWERS: dict[str, dict[str, Any]] = {
    ORDER: {
        "tools": [
            _launch("prices", "Price list", PRICES),
            _launch("orders", "Order form", FORM),
            _launch("news", "Market", MARKET),
        ],
        "text": "Three agents are at work. I will report when all of them are done.",
    },
    PRICES: {"tool": "ask_user", "args": {"question": "Prices in which currency?", "options": ["EUR", "USD"]}},
    FORM: {"tool": "write_artifact", "args": {"path": "files/order.md", "content": "Harbour: 200 at 39.90 €\n"}},
    MARKET: {"text": "Prices of steel fell by two per cent this week."},
    SAVE: {"tool": "write_artifact", "args": {"path": "files/prices.md", "content": REPORT}},
    COMPARE: {"tool": "write_artifact", "args": {"path": "out/prices.md", "content": REPORT}, "text": COMPARED},
    PLANT: {"text": "**Fern** and **ivy** like shade. Ivy is the easier one: water it once a week."},
    COST: {"tool": "calculator", "args": {"expression": "200*39.90"}, "text": "200 pieces cost **7,980 €**."},
}


class Model(ModelServer):
    """A fake model that answers the messages of the screenshots."""

    def line_of(self, body: dict[str, Any]) -> str:
        text = super().line_of(body)
        answer = next((answer for asked, answer in ANSWERS.items() if asked in text), None)
        if answer is None:
            return text
        is_second = body["messages"][-1]["role"] == "tool"  # the text comes after the calls, not also before them
        return answering(
            **{name: value for name, value in answer.items() if is_second or name != "text" or len(answer) == 1}
        )


class Stage:
    """An installation and its browser. tab: opens a page whose user is logged in. site: shows chats of its own."""

    def __init__(self, komand: LiveKomand, browser: Browser, site: "Site | None" = None) -> None:
        self.komand, self.browser, self.site = komand, browser, site
        self._state: Any = None

    def tab(self, size: dict[str, int] = SIZE) -> ChatPage:
        page = self._page(size, storage_state=self._state)
        chat = ChatPage(page, self.komand.url)
        if not self._state:
            chat.open("/login").log_in(self.komand.password)
            page.wait_for_url("**/chat/**")
            self._state = page.context.storage_state()
        return chat.open()

    def visit(self, path: str, size: dict[str, int] = SIZE) -> Page:
        """Open a page of the other site, as a stranger."""
        assert self.site
        page = self._page(size)
        page.goto(f"http://localhost:{self.site.port}{path}")
        return page

    def _page(self, size: dict[str, int], **options: Any) -> Page:
        found = self.browser.new_page(
            viewport=size, device_scale_factor=2, color_scheme="light", reduced_motion="reduce", **options
        )
        found.set_default_timeout(SOON)
        return found


class Site(FakeServer):
    """A shop with the chat for its visitors, and an application with the component for its users."""

    url_of = token = ""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        style = (
            "body{font:16px/1.5 system-ui;margin:0;color:#222;background:#faf7f2}header{background:#23483f;color:#fff;"
            "padding:18px 32px;font-size:22px}main{padding:24px 32px;max-width:1180px}"
            "ul{columns:3;padding-left:20px}komand-chat{display:block;max-width:none;height:640px}"
        )
        if request.path == "/app":
            script = f"document.querySelector('komand-chat').getToken = async () => {json.dumps(self.token)}"
            chat = f"<komand-chat agent='default' heading='Assistant'></komand-chat><script>{script}</script>"
            chat += f"<script src='{self.url_of}/webchat/komand-chat.js' async></script>"
            body = f"<header>Orders · Harbour & Sons</header><main>{chat}</main>"
        else:
            plants = "".join(f"<li>{name}</li>" for name in ("Fern", "Ivy", "Moss", "Sage", "Thyme", "Willow"))
            body = f"<header>The Green Shop</header><main><h2>Plants for shady corners</h2><ul>{plants}</ul></main>"
            body += f"<script src='{self.url_of}/webchat/shop/embed.js' async></script>"
        page = f"<!doctype html><html lang='en'><title>Site</title><style>{style}</style><body>{body}</body></html>"
        return 200, {"Content-Type": "text/html; charset=utf-8"}, page.encode()


def _save(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)  # fonts and pictures are drawn
    picture = Image.open(BytesIO(page.screenshot()))
    picture.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)  # a third of the bytes


def _answered(chat: ChatPage, text: str) -> None:
    chat.send(text)
    chat.page.wait_for_url("**/chat/*-*", timeout=SOON)
    chat.wait_finished()


def light_and_dark(stage: Stage) -> None:
    chat = stage.tab()
    for text in [*EARLIER, SHOWN]:
        _answered(chat.open(), text)
    chat.page.locator(".calls > summary").click()
    chat.page.locator(".call summary").first.click()
    _save(chat.page, "chat-light")
    chat.page.emulate_media(color_scheme="dark")
    _save(chat.page, "chat-dark")


def tour(stage: Stage) -> None:
    page = stage.tab().page
    page.get_by_role("button", name="Start the tour").click()
    page.wait_for_url("**/chat/*-*")
    page.get_by_role("button", name="Ask two things").click()
    expect(page.locator("#tour [role=status]")).to_contain_text("called at the same time")
    page.get_by_role("button", name="Next: Approval").click()
    page.get_by_role("button", name="Write the file").click()
    expect(page.locator(".approval[data-pending]")).to_be_visible()
    _save(page, "tour")


def phone(stage: Stage) -> None:
    chat = stage.tab(PHONE)
    _answered(chat, SHOWN)
    _save(chat.page, "phone")


def team(stage: Stage) -> None:
    chat = stage.tab().open("/chat/new?agent=team")
    chat.send(ORDER)
    expect(chat.page.get_by_role("button", name="EUR")).to_be_visible()
    expect(chat.page.locator(".approval[data-pending]").first).to_be_visible()
    expect(chat.page.locator(".workstream > summary .call-state.is-done")).to_have_count(1)
    chat.page.locator(".scroll").evaluate("shown => shown.scrollTo(0, 0)")
    _save(chat.page, "team")


def approval(stage: Stage) -> None:
    chat = stage.tab()
    chat.send(SAVE)
    expect(chat.page.locator(".approval[data-pending]")).to_be_visible()
    _save(chat.page, "approval")


def files_and_share(stage: Stage) -> None:
    chat = stage.tab()
    _answered(chat, COMPARE)
    page = chat.page
    page.locator(".written-file", has_text="prices.md").last.click()
    expect(page.locator("#file .markdown table")).to_be_visible()
    _save(page, "files")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export or share this chat").click()
    dialog = page.get_by_role("dialog", name="Export or share")
    dialog.get_by_role("button", name="Create a link").click()
    expect(dialog.get_by_label("Link to this chat")).to_be_visible()
    _save(page, "share")


def _ask(shown: Page | FrameLocator, text: str, answer: str) -> None:
    box = shown.get_by_role("textbox", name="Message")
    box.fill(text)
    box.press("Enter")
    expect(shown.get_by_text(answer).first).to_be_visible()


def widget(stage: Stage) -> None:
    page = stage.visit("/")
    page.get_by_role("button", name="Chat").first.click()
    _ask(page.frame_locator("iframe").first, PLANT, "once a week")
    _save(page, "widget")


def component(stage: Stage) -> None:
    page = stage.visit("/app")
    _ask(page, COST, "7,980")
    _save(page, "component")


DEMO: dict[str, Callable[[Stage], None]] = {"chat": light_and_dark, "phone": phone, "tour": tour}
SCRIPTED: dict[str, Callable[[Stage], None]] = {
    "team": team,
    "approval": approval,
    "files": files_and_share,
    "widget": widget,
    "component": component,
}


@contextmanager
def _started(browser: Browser, folder: Path) -> Iterator[Stage]:
    """Start an installation with a scripted model, and a site that may show its chats."""
    port = free_port()
    with Model() as model, Site(port=port) as site:
        settings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "gpt-5-mini"}
        komand = start_komand(folder, **settings, KOMAND_CORS_ORIGINS=f"http://localhost:{port}")
        try:
            config = folder / "config.json"
            config.write_text(
                json.dumps({"origins": [f"http://localhost:{port}"], "greeting": "Hello! Ask me about our plants."})
            )
            added = komand.manage(
                "channel", "add", "web", "shop", "--config", str(config), "--access", "open", "--tools", "ask_user"
            )
            assert added.returncode == 0, added.stderr
            key = {"Authorization": f"Bearer {komand.api_key}"}
            site.url_of, site.token = komand.url, httpx2.post(f"{komand.url}/token/issue", headers=key).json()["token"]
            yield Stage(komand, browser, site)
        finally:
            komand.stop()


def main() -> None:
    wanted = sys.argv[1:] or [*DEMO, *SCRIPTED]
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        if DEMO.keys() & wanted:
            komand = start_komand(Path(folder, "demo"))
            try:
                for name in DEMO.keys() & wanted:
                    DEMO[name](Stage(komand, browser))
            finally:
                komand.stop()
        if SCRIPTED.keys() & wanted:
            with _started(browser, Path(folder, "scripted")) as stage:
                for name in SCRIPTED:
                    if name in wanted:
                        SCRIPTED[name](stage)
        browser.close()


if __name__ == "__main__":
    main()
