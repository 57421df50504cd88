"""Takes the screenshots of the README from the real page: `python -m tests.browser.make_screenshots`.

Starts a Komand of its own with the built-in demo model, so that the pictures show what a first start shows.
"""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.chat_page import SOON, ChatPage
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.support.live_server import LiveKomand, start_komand

IMAGES = Path(__file__).parents[2] / "docs" / "images"
EARLIER = ["What does a webhook do?", "What time is it in London and in New York?", "What is 2**64 - 1?"]
SHOWN = "What is 17*23 and what time is it in Tokyo?"
SIZE = {"width": 1240, "height": 930}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        komand = start_komand(Path(folder))
        try:
            _take(komand)
        finally:
            komand.stop()


def _take(komand: LiveKomand) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE, device_scale_factor=2)
        chat = ChatPage(page, komand.url).open("/login")
        chat.log_in(komand.password)
        for text in [*EARLIER, SHOWN]:
            chat.open()
            chat.send(text)
            page.wait_for_url("**/chat/*-*", timeout=SOON)
            chat.wait_finished()
        chat.page.locator(".call summary").first.click()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.mouse.move(0, 0)
            page.screenshot(path=IMAGES / f"chat-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
