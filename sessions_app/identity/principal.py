"""The authenticated identity of a request and the scopes of its credential. Plain data."""

from dataclasses import dataclass
from typing import Literal

from django.contrib.auth.models import User

from audit_app import rights
from audit_app.kernel.errors import AppError
from sessions_app.rights import SEND_AS_ANYONE

READ = "read"
RIGHTS = "rights"
SENDERS_ANY = "senders:any"

# The scopes of API keys and their meaning. A key without scopes may do what its user may, but not SENDERS_ANY.
SCOPES = {
    READ: "read only: requests that change something are refused",
    RIGHTS: "use the user's rights over objects of others, such as deciding approvals",
    SENDERS_ANY: "send messages as any sender, not only as the key's user",
}


class Unauthenticated(AppError):
    """Log in, or send a valid token or API key as `Authorization: Bearer …`."""

    code = "unauthenticated"


@dataclass(frozen=True)
class Principal:
    """An authenticated identity. scopes: of an API key; always empty for a JWT and for a browser session.

    Without the scope RIGHTS, an API key's `user` holds no right: code that has only the user decides the same.
    """

    user: User
    kind: Literal["jwt", "api_key", "session"]
    scopes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.kind == "api_key" and self.scopes and RIGHTS not in self.scopes:
            rights.withhold(self.user, f"This API key lacks the scope `{RIGHTS}`. Use a key that has it.")

    @property
    def actor(self) -> str:
        return f"user:{self.user.pk}"

    @property
    def can_write(self) -> bool:
        return READ not in self.scopes

    def holds(self, right: rights.Right) -> bool:
        """Return whether the user has the right and the scopes of the credential include rights."""
        return rights.holds(self.user, right)

    def require(self, right: rights.Right) -> None:
        """Raise MissingRight, audited, unless the principal holds the right. Call it outside of a transaction."""
        rights.require(self.user, right)

    def is_self(self, sender_id: str) -> bool:
        """Return whether the sender id names this user by id, user name or e-mail address.

        An id of digits only is compared with user ids alone, so that a user name cannot impersonate another user.
        """
        if sender_id.isdigit():
            return sender_id == str(self.user.pk)
        return sender_id != "" and sender_id.lower() in (self.user.username.lower(), self.user.email.lower())

    def may_send_as(self, sender_id: str) -> bool:
        return self.is_self(sender_id) or SENDERS_ANY in self.scopes or self.holds(SEND_AS_ANYONE)
