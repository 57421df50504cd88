"""A browser with the chat page, of which the frames of its socket are read by the model of the page."""

import json
import re
from uuid import uuid4

import httpx2
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.chaos.clients import source_of
from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient, ignore
from tests.integration.sessions_app.surfaces.chat.page_model import PageModel


class Page(SurfaceClient):
    """The page, with a session for each message."""

    name = "page"
    sends_files = False

    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        with httpx2.Client(base_url=self.url, timeout=SECONDS, headers={"Referer": self.url}) as browser:
            self._log_in(browser)
            place = self._post(browser, "/chat/start", {"text": text, "key": str(uuid4())}).headers["location"]
            return self._read(place.rpartition("/")[2], self._cookie(browser), on_text)

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        with httpx2.Client(base_url=self.url, timeout=SECONDS, headers={"Referer": self.url}) as browser:
            self._log_in(browser)
            return self._read(session, self._cookie(browser), on_text)

    def _read(self, session: str, cookie: str, on_text: OnText) -> str:
        """Return the source of the answer, as the page copies it."""
        address, page = f"{self.url.replace('http', 'ws', 1)}/ws/chat/{session}?cursor=", PageModel()
        with connect(
            address, additional_headers={"Cookie": cookie}, origin=Origin(self.installation.public_url or self.url)
        ) as socket:
            while True:
                message = json.loads(socket.recv(SECONDS))
                for act in message.get("acts", ()):
                    if act["do"] == "answer":
                        return source_of(act["html"])
                    page.apply({"acts": [act]})
                    if act["do"] == "text":
                        on_text(self._text(page))

    @staticmethod
    def _text(page: PageModel) -> str:
        """Return what the page shows of the open answer, without tags."""
        parts = (part for parts in page.parts.values() for part in parts.values() if not isinstance(part, str))
        return " ".join(re.sub("<[^>]*>", "", part.html) + part.open for part in parts)

    def _log_in(self, browser: httpx2.Client, password: str = "") -> int:
        browser.get("/login")
        form = {"username": self.person.name, "password": password or self.person.password}
        return self._post(browser, "/login", form).status_code

    def _post(self, browser: httpx2.Client, path: str, form: dict[str, str]) -> httpx2.Response:
        token = next(value for name, value in dict(browser.cookies).items() if "csrf" in name)
        return browser.post(
            path, data={**form, "csrfmiddlewaretoken": token}, headers={"Cookie": self._cookie(browser)}
        )

    @staticmethod
    def _cookie(browser: httpx2.Client) -> str:
        """Return the header with all cookies: those for HTTPS alone are not sent to the address of this machine."""
        return "; ".join(f"{name}={value}" for name, value in dict(browser.cookies).items())

    def knock(self) -> int:
        with httpx2.Client(base_url=self.url, timeout=SECONDS, headers={"Referer": self.url}) as browser:
            return self._log_in(browser, "wrong")
