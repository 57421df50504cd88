"""Random messages, random viewers and random breakage against one live installation, all from one seed."""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from tests.chaos.breakage import Breakage
from tests.chaos.clients import Browser, Telegram, Watching
from tests.chaos.live_faults_support import Installation, Sent
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram
from tests.support.postgres import PostgresServer

# Programs, by the busy policy of their agents.
_PROGRAMS = ("queue", "queue", "interrupt", "steer")
_BROWSERS = 2
_CHATS = (501, -100777)
_VIEWERS_A_SESSION = 2
_PATIENCE_SECONDS = 110
_REST_SECONDS = 150
_TOOLS = "echo,calculator"
_SECRET = "telegram-secret-0123456789"


@dataclass
class Message:
    """One message of a client.

    key: occurs in its text, to find it again
    expected: the answer; None for any
    place: the client that sends it
    is_taken: whether the installation has acknowledged it
    """

    text: str
    key: str
    expected: str | None
    place: str
    is_taken: bool = False


@dataclass
class Load:
    """Clients and faults: `run` for a while, then `settle`; `tests.chaos.verdict` checks the result.

    stopped: clients whose answers are stopped, by a request or by a newer message
    """

    host: Installation
    seed: int
    telegram: FakeTelegram
    postgres: PostgresServer | None = None
    messages: list[Message] = field(default_factory=list)
    viewers: list[Watching] = field(default_factory=list)
    deeds: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)
    _cookie: str = ""
    _clients: list[Browser | Telegram] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Let clients write and watch, and cause a fault every few seconds."""
        talkers = [threading.Thread(target=self._talk, args=(send, place), daemon=True) for place, send in self._open()]
        for talker in talkers:
            talker.start()
        choose = random.Random(self.seed)
        breakage = Breakage(self.host, self.telegram, self.viewers, self.postgres)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, choose.uniform(0.5, 3.5)))
            self.deeds.append(breakage.something(choose))
            sys.stdout.write(f"  {time.strftime('%X')} {self.deeds[-1]}\n")
        self._over.set()
        for talker in talkers:
            talker.join(_PATIENCE_SECONDS + 10)
            assert not talker.is_alive(), "a message is not accepted"
        breakage.heal()

    def close(self) -> None:
        for viewer in self.viewers:
            viewer.stop()
        for client in self._clients:
            client.close()

    def settle(self) -> None:
        """Wait, without faults, until no run and no delivery is open."""
        self.host.wait_well()
        deadline = time.monotonic() + _REST_SECONDS
        while open_work := self._open_work():
            assert time.monotonic() < deadline, f"still open after {_REST_SECONDS} s: {open_work}"
            time.sleep(0.5)

    def _open_work(self) -> list[object]:
        runs = self.host.rows("SELECT id, status, waiting_on, owner FROM komand_run WHERE ended_at IS NULL")
        sends = self.host.rows(
            "SELECT id, status, owner, error FROM komand_delivery WHERE status IN ('pending', 'sending')"
            " OR owner IS NOT NULL"
        )
        return [*runs, *sends]

    def _open(self) -> list[tuple[str, Callable[["Message", random.Random], None]]]:
        """Return the clients by their names."""
        self._add_bot()
        browser = Browser(self.host.komand)
        self._cookie = browser.cookie
        programs = [
            (place, self._program(place, policy))
            for place, policy in ((f"program{number}-{policy}", policy) for number, policy in enumerate(_PROGRAMS))
        ]
        browsers = [(f"browser{number}", self._browser(browser)) for number in range(_BROWSERS)]
        telegrams = [Telegram(self.host.komand, _SECRET, chat) for chat in _CHATS]
        chats = [(f"chat{telegram.chat}", self._chat(telegram)) for telegram in telegrams]
        self._clients = [browser, *telegrams]
        return [*programs, *browsers, *chats]

    def _add_bot(self) -> None:
        folder = self.host.komand.data_dir.parent
        config = {"api_url": self.telegram.url, "bot_username": BOT_NAME, "chat_seconds": 0.2, "read_all_groups": True}
        files = {"config": config, "secrets": {"bot_token": TOKEN, "webhook_secret": _SECRET}}
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        given = [part for name in files for part in (f"--{name}", str(folder / f"{name}.json"))]
        given += ["--access", "open", "--tools", _TOOLS, "--messages-per-day", "1000000"]
        added = self.host.komand.manage("channel", "add", "telegram", "main", *given)
        assert added.returncode == 0, added.stderr

    def _talk(self, send: Callable[["Message", random.Random], None], place: str) -> None:
        choose = random.Random(f"{self.seed} {place}")
        count = 0
        try:
            while not self._over.is_set():
                message = _any_message(choose, place, count)
                self.messages.append(message)
                send(message, choose)
                message.is_taken = True
                count += 1
                self._over.wait(choose.uniform(0.5, 6.0))
        except Exception as error:
            self.problems.append(f"{place}: {error!r}")

    def _program(self, place: str, policy: str) -> Callable[[Message, random.Random], None]:
        """Return a program that sometimes repeats a request under its old key, or cancels its session's work."""
        watched: list[UUID] = []
        agent = {"agentId": place, "name": place, "busyPolicy": policy}
        self.host.post("/api/agents", agent)
        if policy == "interrupt":
            self.stopped.add(place)

        def send(message: Message) -> Sent:
            return self.host.send(message.text, account=place, key=message.key, agent=place, seconds=_PATIENCE_SECONDS)

        def write(message: Message, choose: random.Random) -> None:
            if policy == "steer":
                message.expected = None  # it may be answered together with others
            sent = send(message)
            if not watched:
                watched.append(sent.session_id)
                self._open_viewers(sent.session_id)
            if choose.random() < 0.2:
                assert send(message).run_id == sent.run_id, "the same key made another run"
            if choose.random() < 0.06:
                self.stopped.add(place)
                self.host.post(f"/api/sessions/{sent.session_id}/cancel", {}, _PATIENCE_SECONDS)

        return write

    def _browser(self, browser: Browser) -> Callable[[Message, random.Random], None]:
        """Return a user whose every click is a double click."""
        sessions: list[UUID] = []

        def write(message: Message, choose: random.Random) -> None:
            key = UUID(int=choose.getrandbits(128), version=4)
            session_id = browser.send(sessions[0] if sessions else None, message.text, key, _PATIENCE_SECONDS)
            if not sessions:
                sessions.append(session_id)
                self._open_viewers(session_id)

        return write

    def _chat(self, telegram: Telegram) -> Callable[[Message, random.Random], None]:
        def write(message: Message, choose: random.Random) -> None:
            telegram.bring(message.text, times=choose.choice((1, 1, 3)), seconds=_PATIENCE_SECONDS)

        return write

    def _open_viewers(self, session_id: UUID) -> None:
        for _ in range(_VIEWERS_A_SESSION):
            self.viewers.append(Watching(self.host.komand, session_id, self._cookie).start())


def _any_message(choose: random.Random, place: str, count: int) -> Message:
    """Return a message: half of them with an answer that takes seconds, others with an instant answer or with tools."""
    key = _letters(f"{place} {count}.")
    kind = choose.random()
    if kind < 0.5:
        words = " ".join(f"{key}{_letters(str(number))}" for number in range(choose.randint(20, 120)))
        return Message(f'[[text="{words}" rate=20]]', key, words, place)
    if kind < 0.7:
        return Message(f'[[text="Answer {key}"]]', key, f"Answer {key}", place)
    if kind < 0.85:
        calls = f'[["echo",{{"text":"{key}"}}],["calculator",{{"expression":"6*7"}}]]'
        return Message(f"[[tools={calls}]]", key, None, place)
    return Message(f"what is {choose.randint(2, 99)}*{choose.randint(2, 99)}? {key}", key, None, place)


def _letters(text: str) -> str:
    """Return a word without digits (the demo model adds numbers up) that is no prefix of another."""
    return text.translate(str.maketrans("0123456789 -.", "abcdefghijxyz"))
