"""How fast this process may talk to a platform: a token bucket an account, a pause between messages a chat. Pure.

Other processes have their own; where that is too much together, the platform says so and its wait is kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from sessions_app.channels.messages import Capabilities

# More than this many messages into a chat in a minute, and nobody there wrote one: two machines talk to each other.
LOOP_MESSAGES, LOOP_SECONDS = 20, 60.0
_MOST_CHATS = 10_000

ChatKey = tuple[UUID, str]


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


@dataclass
class _ChatPace:
    free_at: float = 0.0
    sent: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_MESSAGES + 1))


class Pacing:
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: dict[UUID, _Bucket] = {}
        self._chats: dict[ChatKey, _ChatPace] = {}

    def take(self, chat: ChatKey, capabilities: Capabilities) -> float:
        """0 when a message may go to the chat now, which then counts as sent; else the seconds to wait."""
        now = self._clock()
        bucket, pace = self._bucket(chat[0], capabilities.account_rate, now), self._chat(chat)
        wait = max(pace.free_at - now, 0.0)
        if wait == 0.0 and bucket.tokens < 1.0:
            wait = (1.0 - bucket.tokens) / capabilities.account_rate
        if wait == 0.0:
            bucket.tokens -= 1.0
            pace.free_at = now + capabilities.chat_seconds
        return wait

    def hold(self, chat: ChatKey, seconds: float) -> None:
        """Nothing goes to the chat for that long."""
        pace = self._chat(chat)
        pace.free_at = max(pace.free_at, self._clock() + seconds)

    def is_looping(self, chat: ChatKey) -> bool:
        """Count a message, and tell whether there were too many of late for people to have asked for them."""
        now, sent = self._clock(), self._chat(chat).sent
        sent.append(now)
        return len(sent) > LOOP_MESSAGES and sent[0] > now - LOOP_SECONDS

    def _bucket(self, account: UUID, rate: float, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(account, _Bucket(rate, now))
        bucket.tokens = min(bucket.tokens + (now - bucket.filled_at) * rate, max(rate, 1.0))
        bucket.filled_at = now
        return bucket

    def _chat(self, chat: ChatKey) -> _ChatPace:
        if len(self._chats) > _MOST_CHATS:
            edge = self._clock() - LOOP_SECONDS
            self._chats = {
                key: pace
                for key, pace in self._chats.items()
                if pace.free_at > edge or (pace.sent and pace.sent[-1] > edge)
            }
        return self._chats.setdefault(chat, _ChatPace())
