"""Random messages, random viewers and random breakage against one live installation, all from one seed."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis

from tests.chaos.fire import Fire, Sent, Watching
from tests.live import wait_for

SESSIONS = 6
_VIEWERS_A_SESSION = 2
_REST_SECONDS = 150
_MODEL_FAULTS = ("status=500", "status=429 retry_after=1", "status=503", "cut=5", "badjson=4", "tokens=30 hang=10")
# How a message may end that met too many faults: told, stored and open to another try.
_HONEST_ENDS = ("crashed", "time_limit")


@dataclass
class Message:
    """One message: what was said, what its answer has to be (None: any), and what became of it."""

    text: str
    expected: str | None
    key: str
    sent: Sent | None = None


@dataclass
class Storm:
    """`rage` for a while, then `calm`, then `judge`. crash_database: ends the database server's processes, if given."""

    fire: Fire
    seed: int
    crash_database: Callable[[], None] | None = None
    messages: list[Message] = field(default_factory=list)
    viewers: list[Watching] = field(default_factory=list)
    deeds: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def rage(self, seconds: float) -> None:
        """Let people write and watch, and break something every few seconds."""
        talkers = [threading.Thread(target=self._talk, args=(number,), daemon=True) for number in range(SESSIONS)]
        for talker in talkers:
            talker.start()
        choose = random.Random(self.seed)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, choose.uniform(0.5, 3.5)))
            self._break_something(choose)
        self._over.set()
        for talker in talkers:
            talker.join(120)
            assert not talker.is_alive(), "a message is not accepted"

    def calm(self) -> None:
        """Nothing is broken any more: everything must come to its end by itself."""
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.fire.model.clear_script()
        self.fire.wait_well()
        for message in self.messages:
            assert message.sent, f"{message.key} was never accepted"
            self.fire.wait_ended(message.sent.run_id, _REST_SECONDS)

    def judge(self) -> None:
        """Each message has one answer or one recorded failure, every viewer has the stored text, the rows are whole."""
        assert self.problems == []
        for message in self.messages:
            self._judge_message(message)
        for viewer in self.viewers:
            self._judge_viewer(viewer)
            viewer.stop()
        self.fire.check_invariants()

    def summary(self) -> str:
        runs = [self.fire.run(message.sent.run_id) for message in self.messages if message.sent]
        ends: dict[str, int] = {}
        for run in runs:
            end = run["error_code"] or run["status"]
            ends[end] = ends.get(end, 0) + 1
        told = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
        drops = sum(viewer.drops for viewer in self.viewers)
        return (
            f"seed {self.seed}: {len(self.deeds)} breakages, {len(runs)} messages ({told}), "
            f"{sum(run['fence'] for run in runs)} claims, {len(self.viewers)} viewers with {drops} reconnections"
        )

    def _talk(self, number: int) -> None:
        choose = random.Random(self.seed * 1000 + number)
        count = 0
        try:
            while not self._over.is_set():
                message = _any_message(choose, f"{self.seed}-{number}-{count}")
                self.messages.append(message)
                message.sent = self.fire.send(message.text, account=f"storm{number}", key=message.key, seconds=110)
                if count == 0:
                    self._open_viewers(message.sent.session_id)
                if choose.random() < 0.2:  # a client that is not sure, long after
                    again = self.fire.send(message.text, account=f"storm{number}", key=message.key, seconds=110)
                    assert again.run_id == message.sent.run_id, "the same key made another run"
                count += 1
                self._over.wait(choose.uniform(0.5, 6.0))
        except Exception as error:
            self.problems.append(f"talker {number}: {error!r}")

    def _open_viewers(self, session_id: UUID) -> None:
        for _ in range(_VIEWERS_A_SESSION):
            cookie = self.fire.page_cookie()
            self.viewers.append(Watching(self.fire, session_id, cookie).start())

    def _break_something(self, choose: random.Random) -> None:
        acts: list[tuple[int, str, Callable[[], Any]]] = [
            (4, "kill runs", lambda: self.fire.strike("runs", index=choose.randrange(9))),
            (2, "kill web", lambda: self.fire.strike("web")),
            (2, "kill tools", lambda: self.fire.strike("tools")),
            (2, "kill tool", lambda: self.fire.strike("tool", index=choose.randrange(9))),
            (2, "kill valkey", lambda: self.fire.strike("valkey")),
            (2, "flush valkey", self._flush),
            (2, "stop runs", lambda: self._stop("runs", choose)),
            (1, "stop tools", lambda: self._stop("tools", choose)),
            (1, "stop web", lambda: self._stop("web", choose)),
            (3, "restart runs", lambda: self.fire.strike("runs", signal.SIGTERM, choose.randrange(9))),
            (4, "drop viewers", lambda: [viewer.drop() for viewer in self.viewers if choose.random() < 0.5]),
            (5, "fault of the model", lambda: self.fire.model.script(choose.choice(_MODEL_FAULTS))),
        ]
        if self.crash_database:
            acts.append((2, "crash the database", self.crash_database))
        [(_, name, act)] = choose.choices(acts, weights=[weight for weight, _, _ in acts])
        self.deeds.append(name)
        sys.stdout.write(f"  {time.strftime('%X')} {name}\n")
        with suppress(OSError, redis.exceptions.RedisError):
            act()

    def _flush(self) -> None:
        with self.fire.valkey() as client:
            client.flushall()

    def _stop(self, kind: str, choose: random.Random) -> None:
        pid = self.fire.strike(kind, signal.SIGSTOP, choose.randrange(9))
        self._stopped.add(pid)
        timer = threading.Timer(choose.uniform(1.0, 14.0), self._wake, [pid])
        timer.daemon = True
        timer.start()

    def _wake(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self._stopped.discard(pid)

    def _judge_message(self, message: Message) -> None:
        assert message.sent
        run, answer = self.fire.run(message.sent.run_id), self.fire.answer(message.sent.run_id)
        if run["status"] == "completed":
            assert message.expected in (None, answer["content"]), f"{message.text}: {answer['content']!r}"
        else:
            code = run["error_code"]
            assert code.startswith("model_") or code in _HONEST_ENDS, f"{message.text}: {run['status']} {code}"
            assert answer["state"] == "error" and answer["error_message"], f"{message.text}: no readable end"

    def _judge_viewer(self, viewer: Watching) -> None:
        session = self.fire.key(viewer.session_id)
        turns = self.fire.rows(f"SELECT run_id, content FROM komand_turn WHERE is_answer AND session_id = '{session}'")
        stored = {str(UUID(str(turn["run_id"]))): turn["content"] for turn in turns}
        wait_for(lambda: set(viewer.answers) >= set(stored), 30, "what a viewer missed")
        assert viewer.answers == stored


def _any_message(choose: random.Random, key: str) -> Message:
    """Mostly answers of some seconds, some of them instant, some with tools."""
    kind = choose.random()
    if kind < 0.5:
        tokens = choose.randint(20, 120)
        whole = "".join(f"tok{number} " for number in range(tokens))
        return Message(f"[[tokens={tokens} rate=20]] {key}", whole, key)
    if kind < 0.7:
        return Message(f'[[text="Answer {key}"]]', f"Answer {key}", key)
    if kind < 0.85:
        return Message(f'[[tools=[["echo",{{"text":"{key}"}}],["calculator",{{"expression":"6*7"}}]]]]', None, key)
    return Message(f"what is {choose.randint(2, 99)}*{choose.randint(2, 99)}?", None, key)
