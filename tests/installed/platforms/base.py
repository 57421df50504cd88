"""A platform in scenarios: people who write there, and the texts, files and buttons that they are shown."""

import itertools
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import httpx2

from tests.installed.installation import Installation
from tests.support.live_server import wait_for

# Generous: each wait ends as soon as its condition holds.
SECONDS = 60
FORGED = "a message that its sender never wrote"
_PEOPLE = 60
Found = TypeVar("Found")
Server = TypeVar("Server", bound=AbstractContextManager[Any])


class Platform(ABC, Generic[Server]):
    """A platform with one account of the installation.

    channel: its name in Komand
    takes_files: files of an agent arrive as files, else as links
    registers: `channel test` registers something there, or learns what the account needs
    joins_bursts: short messages within a moment are one
    buttons: a question's options can be pressed, else they are written
    server: what stands for the platform
    """

    channel: ClassVar[str]
    takes_files: ClassVar[bool] = True
    registers: ClassVar[bool] = False
    joins_bursts: ClassVar[bool] = True
    buttons: ClassVar[bool] = True
    server: Server

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._people = itertools.count(1)
        self.installation: Installation

    @property
    def private_addresses(self) -> list[str]:
        """Addresses of this machine that stand for public ones, which alone the channel calls."""
        return []

    @abstractmethod
    def config(self) -> dict[str, Any]: ...

    @abstractmethod
    def secrets(self) -> dict[str, str]: ...

    @abstractmethod
    def sender_id(self, number: int) -> str:
        """Return the platform's id of a person."""

    @abstractmethod
    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        """Return a new message of a person, as the platform delivers it. file: of a text file notes.txt."""

    @abstractmethod
    def deliver(self, message: Any) -> None:
        """Have the installation receive a message, perhaps not for the first time."""

    @abstractmethod
    def texts(self, person: str) -> list[str]:
        """Return the texts that a person is shown, oldest first."""

    def files(self, person: str) -> list[bytes]:
        """Return the uploads for a person as they arrived, with their names. Links are not among them."""
        return []

    def press(self, person: str, label: str) -> None:
        """Press a button as soon as it is shown. Platforms without buttons have the label written."""
        self.say(person, label)

    def forge(self, person: str) -> int | None:
        """Deliver FORGED without the signature of the platform; return the status, None if nothing answers."""
        return None

    def join(self, installation: Installation, folder: Path) -> Self:
        """Add the account as an operator does, and wait until a message is answered. Return the platform."""
        self.installation = installation
        files = []
        for name, content in (("config", self.config()), ("secrets", self.secrets())):
            path = folder / f"{self.channel}-{name}.json"
            path.write_text(json.dumps(content))
            files += [f"--{name}", str(path)]
        allowed = [one for number in range(_PEOPLE) for one in ("--allow", self.sender_id(number))]
        tools = ("--tools", "write_artifact,ask_user")
        self._manage("add", self.channel, "main", *files, *allowed, *tools)
        if self.registers:
            self._manage("test", self.channel, "main")
        person = self.person()
        self.say(person, 'hello [[text="Hello."]]')
        self.wait_for(person, ["Hello."])
        return self

    def _manage(self, *arguments: str) -> None:
        done = self.installation.manage("channel", *arguments, seconds=5 * SECONDS)
        assert done.returncode == 0, f"channel {arguments[:2]}: {done.stdout}{done.stderr}"

    def person(self) -> str:
        """Return the id of a person who has not written yet, and who may."""
        number = next(self._people)
        assert number < _PEOPLE
        return self.sender_id(number)

    def stranger(self) -> str:
        """Return the id of a person who may not write."""
        return self.sender_id(_PEOPLE)

    def say(self, person: str, text: str, file: bytes = b"") -> float:
        """Have a person write a message; return when, in monotonic seconds."""
        message, at = self.message(person, text, file), time.monotonic()
        self.deliver(message)
        return at

    def wait_for(self, person: str, texts: list[str]) -> None:
        """Wait until a person is shown exactly these texts."""
        with suppress(AssertionError):
            wait_for(lambda: self.texts(person) == texts, SECONDS)
        shown = self.texts(person)
        assert shown == texts, f"{self.channel}: {person} is shown {shown}"

    @property
    def path(self) -> str:
        """The path of the account's webhook."""
        return f"/channels/{self.channel}/main/webhook"

    @staticmethod
    def button(find: Callable[[], Found | None]) -> Found:
        """Return a button as soon as it is shown."""
        found: Found = wait_for(find, SECONDS, "the button")
        return found

    def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a request to the account's webhook; return the status."""
        return httpx2.post(
            self.installation.url + self.path, content=body, headers=dict(headers), timeout=SECONDS
        ).status_code

    def linked_files(self, text: str) -> list[bytes]:
        """Return the files to which a text links, which anybody can open with the link."""
        public = self.installation.public_url
        paths = re.findall(rf"{re.escape(public)}(/channels/files/[\w.-]+)", text)
        return [httpx2.get(self.installation.url + path, timeout=SECONDS).content for path in paths]

    @property
    def has_public_address(self) -> bool:
        return self.installation.public_url.startswith("https://")
