"""Messages between robots of one process. Each robot gets its messages one at a time, in the order they were sent."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from audit_app.kernel.errors import AppError, InvalidInput

logger = logging.getLogger(__name__)

_MOST_DELIVERIES = 1_000  # that one message may cause


class MessageStorm(AppError):
    """The handlers of robots send each other messages without end."""

    code = "message_storm"


@dataclass(frozen=True)
class RobotMessage:
    """A message of a robot. id: counted by sender. in_reply_to: key of the message that it answers, or empty."""

    id: int
    sender: str
    content: Any
    in_reply_to: str = ""

    @property
    def key(self) -> str:
        return f"{self.sender}:{self.id}"

    @property
    def is_reply(self) -> bool:
        return bool(self.in_reply_to)


@dataclass
class Sent:
    """A sent message with its replies, for its sender."""

    message: RobotMessage
    replies: list[RobotMessage] = field(default_factory=list)

    @property
    def status(self) -> str:
        return "replied" if self.replies else "sent"


@dataclass(frozen=True)
class DeadLetter:
    """A message that a robot's handler could not handle. error: of the last try."""

    to: str
    message: RobotMessage
    error: Exception


Handler = Callable[[RobotMessage], None]


class Bus:
    """The bus. Robots of one name all get the messages to it. tries: how often a handler is called that fails."""

    def __init__(self, *, tries: int = 3) -> None:
        self.dead_letters: list[DeadLetter] = []
        self.outbox: dict[str, Sent] = {}
        self._tries = tries
        self._handlers: dict[str, list[Handler]] = {}
        self._counts: dict[str, int] = {}
        self._queue: deque[tuple[str, Handler, RobotMessage]] = deque()
        self._lock = threading.RLock()
        self._is_delivering = False

    def join(self, name: str, handler: Handler) -> None:
        """Deliver messages to this name to a handler. It is done with a message when it returns."""
        with self._lock:
            self._handlers.setdefault(name, []).append(handler)

    def leave(self, name: str, handler: Handler) -> None:
        with self._lock:
            self._handlers[name].remove(handler)

    def send(self, sender: str, to: str, content: Any, *, in_reply_to: str = "") -> RobotMessage:
        """Send a message and deliver it, unless a handler that runs now sends it: then after that one returns.

        Raises InvalidInput for an unknown receiver, MessageStorm.
        """
        with self._lock:
            if not self._handlers.get(to):
                raise InvalidInput(f"There is no robot {to!r} on the bus.", code="unknown_robot")
            self._counts[sender] = self._counts.get(sender, 0) + 1
            message = RobotMessage(self._counts[sender], sender, content, in_reply_to)
            self.outbox[message.key] = Sent(message)
            if in_reply_to in self.outbox:
                self.outbox[in_reply_to].replies.append(message)
            self._queue.extend((to, handler, message) for handler in self._handlers[to])
            if not self._is_delivering:
                self._deliver()
        return message

    def _deliver(self) -> None:
        self._is_delivering = True
        try:
            for _ in range(_MOST_DELIVERIES):
                if not self._queue:
                    return
                self._handle(*self._queue.popleft())
            self._queue.clear()
            raise MessageStorm(f"One message has caused more than {_MOST_DELIVERIES:,} others.")
        finally:
            self._is_delivering = False

    def _handle(self, to: str, handler: Handler, message: RobotMessage) -> None:
        for left in reversed(range(self._tries)):
            try:
                handler(message)
                return
            except Exception as error:
                logger.warning("robot %s could not handle %s", to, message.key, exc_info=True)
                if not left:
                    self.dead_letters.append(DeadLetter(to, message, error))
