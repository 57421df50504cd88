"""Common to the clients of the surfaces: what a scenario may ask of one."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from tests.installed.installation import Installation
from tests.installed.people import Person

SECONDS = 90  # generous: each wait ends as soon as its condition holds
OnText = Callable[[str], Any]


def ignore(text: str) -> None:
    pass


class SurfaceClient(ABC):
    """A client in the name of a person.

    name: of the surface or of the client
    is_live: it shows an answer while it is written
    only_appends: text that it has shown stays, also if the answer is another one now
    sends_files: a message may have files
    shows_files: the files of an agent can be found by what the client knows
    follows: it can show a run of the person that another client has begun
    """

    name: ClassVar[str]
    is_live: ClassVar[bool] = True
    only_appends: ClassVar[bool] = False
    sends_files: ClassVar[bool] = True
    shows_files: ClassVar[bool] = True
    follows: ClassVar[bool] = True

    def __init__(self, installation: Installation, person: Person) -> None:
        self.installation, self.person = installation, person
        self.url = installation.url

    @abstractmethod
    def ask(self, text: str, on_text: OnText = ignore, file: bytes = b"") -> str:
        """Send a message and return the text that the client shows at the end.

        on_text: called with all that it shows, each time that there is more. file: of a text file notes.txt.
        """

    def follow(self, session: str, run: str, on_text: OnText = ignore) -> str:
        """Show an open run of the person to its end. Return the text that the client shows then.

        on_text: as for `ask`.
        """
        raise NotImplementedError

    @abstractmethod
    def knock(self) -> int:
        """Send a message with a wrong key. Return the status of the answer."""

    def sessions(self) -> list[str]:
        """Return the ids of the person's sessions."""
        return [session["sessionId"] for session in self.get("/api/sessions")]

    def stored(self, question: str) -> str:
        """Return the stored text of the answer to a question."""
        for session in self.sessions():
            texts = [turn["content"] for turn in self.get(f"/api/sessions/{quote(session, safe='')}/history")]
            if question in texts:
                return str(texts[texts.index(question) + 1])
        raise AssertionError(f"{question} is not stored")

    def files(self) -> list[str]:
        """Return the addresses of the files of the person's agents."""
        found = [self.get(f"/api/sessions/{quote(one, safe='')}/artifacts") for one in self.sessions()]
        return [self.url + file["url"] for files in found for file in files if file["path"].startswith("out/")]

    def download(self, address: str) -> bytes:
        return httpx2.get(address, headers=self.headers, timeout=SECONDS).raise_for_status().content

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.person.key}"}

    def get(self, path: str) -> Any:
        """Return the data of a request of REST."""
        answer = httpx2.get(self.url + path, headers=self.headers, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def upload(self, file: bytes) -> str:
        """Store a file for the next message over REST. Return its id."""
        headers = {**self.headers, "Content-Type": "text/plain"}
        url = f"{self.url}/api/attachments?filename=notes.txt"
        answer = httpx2.post(url, content=file, headers=headers, timeout=SECONDS)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["data"]["attachmentId"])
