"""Page object of the chat page for the browser tests."""

import json
from typing import Any

from playwright.sync_api import Dialog, Locator, Page, expect

SOON = 20_000  # milliseconds that anything on the page may take on a busy machine


def answering(**directives: Any) -> str:
    """Return a message that sets the fake model's answer; see tests/fakes/directives.py."""
    parts = [name if value is True else f"{name}={_value(value)}" for name, value in directives.items()]
    return f"[[{' '.join(parts)}]]"


def _value(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else json.dumps(value)


class ChatPage:
    """One tab. `problems` collects errors, policy violations and dialogs."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.expects_refusals = False  # htmx reports each request that fails, Chromium that for the service worker
        page.set_default_timeout(SOON)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, kind: str, text: str) -> None:
        if "htmx:sendAbort" in text:  # the page was left while a request was under way, which htmx tells in two lines
            if self.problems and "htmx:afterRequest" in self.problems[-1]:
                self.problems.pop()
            return
        # Chromium reports every refused request and lost socket as an error; tests cause those on purpose.
        known = ["Failed to load resource", "WebSocket connection"]
        if self.expects_refusals:
            known += ["Response Status Error Code", "htmx:afterRequest", "htmx:sendError", "fetching the script"]
        if kind == "error" and not any(words in text for words in known):
            self.problems.append(f"console: {text}")

    def open(self, path: str = "/chat/new") -> "ChatPage":
        self.page.goto(self.url + path)
        return self

    def log_in(self, password: str, name: str = "admin") -> None:
        self.page.get_by_label("E-mail or user name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def send(self, text: str) -> None:
        self.box.fill(text)
        self.box.press("Enter")

    def ask(self, **directives: Any) -> Locator:
        """Send a message in an open or new chat, and return its answer."""
        before = self.answers.count()
        self.send(answering(**directives))
        expect(self.answers).to_have_count(before + 1, timeout=SOON)
        return self.answers.nth(before)

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def answers(self) -> Locator:
        return self.page.locator(".answer")

    @property
    def questions(self) -> Locator:
        return self.page.locator(".question")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def banner(self) -> Locator:
        return self.page.locator("#banner")

    def wait_finished(self) -> None:
        expect(self.page.locator(".answer[data-open]")).to_have_count(0, timeout=SOON)
        expect(self.answers.last).to_be_visible()


def tokens(count: int) -> str:
    """Return the fake model's answer of that many tokens."""
    return " ".join(f"tok{number}" for number in range(count))
