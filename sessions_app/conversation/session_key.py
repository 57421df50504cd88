"""Public session ids: `{Channel}:{AccountId}:{SenderId}[:{ThreadId}]`, each part percent-encoded. Pure."""

from dataclasses import dataclass
from urllib.parse import quote, unquote

from audit_app.kernel.errors import InvalidInput

# Channels whose messages clients read where they are stored: nothing is sent.
STORED_CHANNELS = ("WebChat", "Api")


@dataclass(frozen=True)
class SessionKey:
    """The parts of a public session id. thread_id empty: the sender's current session."""

    channel: str
    account_id: str
    sender_id: str
    thread_id: str = ""

    def __str__(self) -> str:
        parts = [self.channel, self.account_id, self.sender_id, *([self.thread_id] if self.thread_id else [])]
        return ":".join(quote(part, safe="") for part in parts)


def parse_key(text: str) -> SessionKey:
    """Parse a public session id. Raises InvalidInput unless it has three or four parts."""
    parts = [unquote(part) for part in text.split(":")]
    if len(parts) not in (3, 4) or not all(parts):
        raise InvalidInput(f"{text!r} is not a session id. Expected Channel:Account:Sender, with an optional :Thread.")
    return SessionKey(*parts)
