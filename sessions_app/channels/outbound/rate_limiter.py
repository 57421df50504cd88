"""Rate limits towards platforms: a token bucket for each account, a pause between the messages of each chat. Pure.

Each process has its own. If together they are too fast, the platform answers with a wait, which is kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from sessions_app.platforms.messages import Capabilities

# More messages than this into a chat within a minute, without one by a person, count as a message loop.
LOOP_MESSAGES, LOOP_SECONDS = 20, 60.0
# If this many chats of an account get a wait within this time, the whole account waits.
_CHATS_HELD, _HELD_WITHIN_SECONDS = 3, 10.0
# A longer wait is cut to this: it may be a mistake of the platform that is corrected by then.
_LONGEST_HOLD_SECONDS = 3600.0
_MOST_CHATS = 10_000

ChatKey = tuple[UUID, str]


@dataclass
class _AccountPace:
    tokens: float
    filled_at: float
    free_at: float = 0.0
    held: dict[str, float] = field(default_factory=dict)


@dataclass
class _ChatPace:
    free_at: float = 0.0
    held_until: float = 0.0
    sent: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_MESSAGES + 1))


class RateLimiter:
    """The limits of one process. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._accounts: dict[UUID, _AccountPace] = {}
        self._chats: dict[ChatKey, _ChatPace] = {}

    def take(self, chat: ChatKey, capabilities: Capabilities) -> float:
        """Charge a message to the limits and return 0.0, or return the seconds to wait and charge nothing."""
        return self._take(chat, capabilities, reserve=0.0, is_message=True)

    def take_preview(self, chat: ChatKey, capabilities: Capabilities) -> float:
        """Do the same for a preview. Half of the account's rate stays reserved for messages."""
        reserve = capabilities.account_rate / 2
        return self._take(chat, capabilities, reserve=reserve, is_message=capabilities.drafts == "edit")

    def account_wait(self, account: UUID, capabilities: Capabilities) -> float:
        """Return the seconds until the account may send anything."""
        now = self.clock()
        return self._wait(self._account(account, capabilities.account_rate, now), capabilities, 0.0, now)

    def hold(self, chat: ChatKey, seconds: float, *, whole_account: bool = False) -> None:
        """Keep a wait that the platform asked for, of at most an hour. It is the chat's; the whole account's if the
        platform says so or asks for it in several chats."""
        now, (account_id, chat_id), seconds = self.clock(), chat, min(seconds, _LONGEST_HOLD_SECONDS)
        pace = self._chat(chat)
        pace.held_until = max(pace.held_until, now + seconds)
        account = self._accounts.setdefault(account_id, _AccountPace(1.0, now))
        account.held = {key: at for key, at in account.held.items() if at > now - _HELD_WITHIN_SECONDS}
        account.held[chat_id] = now
        if whole_account or len(account.held) >= _CHATS_HELD:
            account.free_at = max(account.free_at, now + seconds)

    def _take(self, chat: ChatKey, capabilities: Capabilities, *, reserve: float, is_message: bool) -> float:
        now = self.clock()
        account, pace = self._account(chat[0], capabilities.account_rate, now), self._chat(chat)
        chat_wait = max(pace.held_until - now, pace.free_at - now if is_message else 0.0)
        wait = max(chat_wait, self._wait(account, capabilities, reserve, now))
        if wait == 0.0:
            account.tokens -= 1.0
            if is_message:
                pace.free_at = now + capabilities.chat_seconds
        return wait

    @staticmethod
    def _wait(account: _AccountPace, capabilities: Capabilities, reserve: float, now: float) -> float:
        missing = min(1.0 + reserve, max(capabilities.account_rate, 1.0)) - account.tokens
        return max(account.free_at - now, missing / capabilities.account_rate, 0.0)

    def is_looping(self, chat: ChatKey) -> bool:
        """Count a message; return whether the chat had too many recently for people to have caused them."""
        now, sent = self.clock(), self._chat(chat).sent
        sent.append(now)
        return len(sent) > LOOP_MESSAGES and sent[0] > now - LOOP_SECONDS

    def _account(self, account_id: UUID, rate: float, now: float) -> _AccountPace:
        account = self._accounts.setdefault(account_id, _AccountPace(rate, now))
        account.tokens = min(account.tokens + (now - account.filled_at) * rate, max(rate, 1.0))
        account.filled_at = now
        return account

    def _chat(self, chat: ChatKey) -> _ChatPace:
        if len(self._chats) > _MOST_CHATS:
            edge = self.clock() - LOOP_SECONDS
            self._chats = {
                key: pace
                for key, pace in self._chats.items()
                if max(pace.free_at, pace.held_until) > edge or (pace.sent and pace.sent[-1] > edge)
            }
        return self._chats.setdefault(chat, _ChatPace())
