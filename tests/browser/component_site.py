"""A page of another origin with `<komand-chat>`, for the browser tests."""

import base64
import json
import os
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer

HOSTILE = """
* { display: none !important; color: red !important; font-size: 40px !important; letter-spacing: 9px !important }
* { opacity: .1 !important }
html, body, main, komand-chat { display: block !important }
"""
# Elements with these names hide the methods of `document`.
NAMES = "<form name=createElement></form><img name=querySelector><img name=addEventListener><img name=activeElement>"
SCRIPT = """
const chat = Document.prototype.querySelector.call(document, "komand-chat");
window.seen = [];
for (const name of ["ready", "message", "run-start", "run-end", "interrupt", "open", "close", "reset", "error"]) {
  chat.addEventListener(`komand-${name}`, () => { chat.dataset.seen = seen.push(name) && seen.join(", ") });
}
chat.getToken = async ({ isExpired }) => {
  seen.push(`token ${isExpired}`);
  return isExpired ? TOKEN : "of-another-host";
};
chat.messageContext = () => ({ page: "Orders of Ann" });
"""


class App(FakeServer):
    """An application of somebody else. url_of: of Komand; token: of its user."""

    url_of = token = ""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        is_hostile, is_visited = request.path == "/hostile", request.path.startswith("/visitor")
        attributes = (
            'launcher="Ask"' if is_hostile else 'heading="Helper" starters="Hello" file-types=".txt" max-files="1"'
        )
        head = "<title>App</title><meta name='viewport' content='width=device-width'>"
        head += f"<style nonce='n'>{HOSTILE}</style>" if is_hostile else ""
        whose = "account='corner'" if is_visited else "agent='careful'"
        if request.path == "/part":
            attributes += ' hide="thinking tools ratings versions"'
        if request.path.startswith("/thread/"):
            attributes += f" thread='{request.path.removeprefix('/thread/')}'"
        if is_visited:
            attributes += f" agent-name='Ada' picture='{self.url_of}/webchat/corner/picture' transcript"
        chat = f"<komand-chat {whose} {attributes}></komand-chat>"
        body = f"<main><h1>App</h1>{NAMES if is_hostile else ''}{chat}</main>"
        script = f"<script nonce='n'>const TOKEN = {json.dumps(self.token)};{SCRIPT}</script>"
        include = f"<script src='{self.url_of}/webchat/komand-chat.js' async></script>"
        policy = f"default-src 'none'; script-src {self.url_of} 'nonce-n'; connect-src {self.url_of}"
        policy += "; style-src 'nonce-n'" if is_hostile else ""
        page = f"<!doctype html><html lang='en'>{head}<body>{body}{script}{include}</body></html>"
        return 200, {"Content-Type": "text/html", "Content-Security-Policy": policy}, page.encode()


def picture() -> str:
    """Return a red square, as a data address."""
    target = BytesIO()
    Image.new("RGB", (40, 20), "red").save(target, "PNG")
    return f"data:image/png;base64,{base64.b64encode(target.getvalue()).decode()}"


def send(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    box.fill(text)
    box.press("Enter")


def send_after_answer(page: Page, text: str) -> None:
    """Send a message once the last one is answered, and wait for its answer."""
    ended = page.locator(".answer:not([data-open])")
    expect(ended).to_have_count(1)
    send(page, text)
    expect(ended).to_have_count(2)


def picture_of(page: Page, name: str) -> None:
    """Store screenshots, light and dark, if KOMAND_PICTURES names a folder: for people who look at them."""
    if folder := os.environ.get("KOMAND_PICTURES"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(folder) / f"{name}-{scheme}.png")
        page.emulate_media(color_scheme="light")
