"""Messages between robots of one process. Each robot gets its messages one at a time, in the order they were sent."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from audit_app.kernel.errors import AppError, InvalidInput

logger = logging.getLogger(__name__)

_MOST_DELIVERIES = 1_000  # that one message may cause
MOST_KEPT = 10_000  # messages, and dead letters, of a bus


class MessageStorm(AppError):
    """The handlers of robots send each other messages without end."""

    code = "message_storm"


@dataclass(frozen=True)
class RobotMessage:
    """A message of a robot.

    id: counted by sender.
    in_reply_to: key of the message that it answers, or empty.
    """

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


@dataclass
class _Cascade:
    """A message with those that its handlers send. count: of their deliveries."""

    count: int = 0

    @property
    def is_storm(self) -> bool:
        return self.count > _MOST_DELIVERIES


@dataclass(frozen=True)
class _Delivery:
    """A message to one handler."""

    to: str
    handler: Handler
    message: RobotMessage
    cascade: _Cascade


_cascade: ContextVar[_Cascade | None] = ContextVar("cascade", default=None)


class Bus:
    """The bus. Robots of one name all get the messages to it.

    tries: how often a handler is called that fails.
    outbox: the last MOST_KEPT messages by their keys, with their replies.
    dead_letters: the last MOST_KEPT.
    """

    def __init__(self, *, tries: int = 3) -> None:
        self.dead_letters: deque[DeadLetter] = deque(maxlen=MOST_KEPT)
        self.outbox: dict[str, Sent] = {}
        self._tries = tries
        self._handlers: dict[str, list[Handler]] = {}
        self._counts: dict[str, int] = {}
        self._queue: deque[_Delivery] = deque()
        self._lock = threading.Lock()
        self._is_delivering = False

    def join(self, name: str, handler: Handler) -> None:
        """Deliver messages to this name to a handler. It is done with a message when it returns."""
        with self._lock:
            self._handlers.setdefault(name, []).append(handler)

    def leave(self, name: str, handler: Handler) -> None:
        with self._lock:
            self._handlers[name].remove(handler)

    def send(self, sender: str, to: str, content: Any, *, in_reply_to: str = "") -> RobotMessage:
        """Send a message and deliver it. While a handler runs, it is delivered later, by the thread of that handler.

        Raises InvalidInput for an unknown receiver, MessageStorm.
        """
        cause = _cascade.get()
        cascade = cause or _Cascade()
        with self._lock:
            if not self._handlers.get(to):
                raise InvalidInput(f"There is no robot {to!r} on the bus.", code="unknown_robot")
            message = self._keep(sender, content, in_reply_to)
            self._queue.extend(_Delivery(to, handler, message, cascade) for handler in self._handlers[to])
            is_delivered_later, self._is_delivering = self._is_delivering, True
        if not is_delivered_later:
            self._deliver()
        if cascade.is_storm and cause is None:
            raise MessageStorm(f"One message has caused more than {_MOST_DELIVERIES:,} others.")
        return message

    def _keep(self, sender: str, content: Any, in_reply_to: str) -> RobotMessage:
        """Put a new message into the outbox, and among the replies to the one that it answers."""
        self._counts[sender] = self._counts.get(sender, 0) + 1
        message = RobotMessage(self._counts[sender], sender, content, in_reply_to)
        self.outbox[message.key] = Sent(message)
        if len(self.outbox) > MOST_KEPT:
            del self.outbox[next(iter(self.outbox))]
        if in_reply_to in self.outbox:
            self.outbox[in_reply_to].replies.append(message)
        return message

    def _deliver(self) -> None:
        """Deliver what is queued. Handlers run without the lock: other threads may send what a handler waits for."""
        try:
            while delivery := self._next():
                delivery.cascade.count += 1
                if not delivery.cascade.is_storm:
                    self._handle(delivery)
                elif delivery.cascade.count == _MOST_DELIVERIES + 1:
                    logger.error("messages to robot %s are dropped: one has caused too many others", delivery.to)
        except BaseException:
            with self._lock:
                self._is_delivering = False
            raise

    def _next(self) -> _Delivery | None:
        with self._lock:
            self._is_delivering = bool(self._queue)
            return self._queue.popleft() if self._queue else None

    def _handle(self, delivery: _Delivery) -> None:
        token = _cascade.set(delivery.cascade)
        try:
            for left in reversed(range(self._tries)):
                try:
                    delivery.handler(delivery.message)
                    return
                except Exception as error:
                    logger.warning("robot %s could not handle %s", delivery.to, delivery.message.key, exc_info=True)
                    if not left:
                        self.dead_letters.append(DeadLetter(delivery.to, delivery.message, error))
        finally:
            _cascade.reset(token)
