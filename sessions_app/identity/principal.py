"""The authenticated identity of a request and the scopes of its credential. Plain data."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from django.contrib.auth.models import User

from audit_app import fresh_login, rights
from audit_app.kernel.errors import AppError
from sessions_app.identity import scopes as key_scopes
from sessions_app.identity.actor_names import is_named
from sessions_app.identity.scopes import RIGHTS, SENDERS_ANY
from sessions_app.rights import SEND_AS_ANYONE


class Unauthenticated(AppError):
    """Log in, or send a valid token or API key as `Authorization: Bearer …`."""

    code = "unauthenticated"


@dataclass(frozen=True)
class Principal:
    """An authenticated identity.

    scopes: scopes of an API key; empty for a JWT and for a browser session, which are limited by their user alone.
    surface: at which the credential was presented; empty for paths of none.
    credential: `key:<id>` or `login:<id>`, with which it ends; that of a ticket begins with `ticket:`; empty for a
        browser session.
    The scopes limit `user` as well: without RIGHTS it holds no right, and with scopes of agents it may use only those.
    Code that has only the user decides the same.
    authenticated_at: when the user last proved who they are; None if that is unknown, as for API keys.
    valid_until: expiry of the token; None for an API key, a ticket and a browser session.
    password_stamp: of the user's password, with whose change the credential ends; empty for API keys.
    session_key: of the browser session, also if a ticket was issued for it.
    """

    user: User
    kind: Literal["jwt", "api_key", "session"]
    scopes: frozenset[str] = frozenset()
    surface: str = ""
    credential: str = ""
    authenticated_at: datetime | None = None
    valid_until: datetime | None = None
    password_stamp: str = field(default="", repr=False)
    session_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.kind != "api_key":
            return
        if RIGHTS not in self.scopes:
            rights.withhold(self.user, f"This API key lacks the scope `{RIGHTS}`. Use a key that has it.")
        key_scopes.limit_agents(self.user, self.scopes)

    @property
    def actor(self) -> str:
        return f"user:{self.user.pk}"

    @property
    def can_write(self) -> bool:
        return self.kind != "api_key" or key_scopes.may_use(self.scopes, self.surface, writes=True)

    def require_surface(self) -> None:
        """Raise MissingScope, audited, unless the credential extends to the surface."""
        if self.kind == "api_key" and not key_scopes.may_use(self.scopes, self.surface):
            raise key_scopes.refuse(self.surface or key_scopes.ALL, self.actor)

    def require_write(self) -> None:
        """Raise MissingScope (read_only_key), audited, unless the credential may change something."""
        if not self.can_write:
            raise key_scopes.refuse(self.surface or key_scopes.ALL, self.actor, code="read_only_key")

    def holds(self, right: rights.Right) -> bool:
        """Return whether the user has the right and the scopes of the credential include rights."""
        return rights.holds(self.user, right)

    def require(self, right: rights.Right) -> None:
        """Raise MissingRight, audited, unless the principal holds the right. Call it outside of a transaction."""
        rights.require(self.user, right)

    @property
    def has_fresh_login(self) -> bool:
        """Return whether actions that take a fresh login are open. API keys do without: their scopes limit them."""
        return self.kind == "api_key" or fresh_login.is_fresh(self.authenticated_at)

    def require_fresh_login(self, action: str) -> None:
        """Raise FreshLoginRequired unless the login is fresh, see `fresh_login.require`. The refusal is audited."""
        if not self.has_fresh_login:
            fresh_login.refuse(action, self.actor)

    def is_self(self, sender_id: str) -> bool:
        """Return whether the sender id names this user; see `actor_names.is_named`."""
        return is_named(self.user, sender_id)

    def may_send_as(self, sender_id: str) -> bool:
        return self.is_self(sender_id) or SENDERS_ANY in self.scopes or self.holds(SEND_AS_ANYONE)
