"""The browsers of users that are notified: added, changed and removed by their users. Synchronous."""

from base64 import b64decode, urlsafe_b64decode
from dataclasses import dataclass
from datetime import datetime, time
from hashlib import sha256
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app.identity.devices import describe
from sessions_app.models import Login, PushSubscription
from sessions_app.push import encryption
from tools_app.network import ssrf_guard
from tools_app.secrets import vault

MOST_OF_A_USER = 20
_MOST_CHARACTERS = 1_000  # of an endpoint


@dataclass(frozen=True)
class NewSubscription:
    """A subscription as a browser makes it (Push API). Raises InvalidInput if it is not one.

    endpoint: address of its push service.
    p256dh, auth: its public key and its secret, in base64url.
    """

    endpoint: str
    p256dh: str
    auth: str

    def __post_init__(self) -> None:
        _check_endpoint(self.endpoint)
        try:
            encryption.read_public_key(decoded(self.p256dh))
            is_right = len(decoded(self.auth)) == encryption.AUTH_BYTES
        except ValueError:
            is_right = False
        if not is_right:
            raise InvalidInput("The keys of the browser are not valid.", code="push_keys")


@dataclass(frozen=True)
class Preferences:
    """The kinds that a browser is notified of, and its quiet hours, which may pass midnight. Both or none are given."""

    approvals: bool = True
    questions: bool = True
    answers: bool = True
    quiet_from: time | None = None
    quiet_until: time | None = None

    def __post_init__(self) -> None:
        if (self.quiet_from is None) != (self.quiet_until is None):
            raise InvalidInput("Enter the start and the end of the quiet hours, or neither.", code="quiet_hours")

    def fields(self) -> dict[str, object]:
        """Return the columns of a subscription."""
        names = ("approvals", "questions", "answers")
        wanted: dict[str, object] = {f"wants_{name}": getattr(self, name) for name in names}
        return {**wanted, "quiet_from": self.quiet_from, "quiet_until": self.quiet_until}


def subscribe(user: User, session_key: str, new: NewSubscription, time_zone: str) -> PushSubscription:
    """Add the browser of a login, or move it to this user and login if it is known. Audited.

    session_key: of the browser session. Raises Conflict (too_many_browsers), NotFound if there is no such login.
    """
    login = Login.objects.filter(user=user, session_key=session_key).first() if session_key else None
    if login is None:
        raise NotFound("Log in again to be notified on this browser.")
    digest = sha256(new.endpoint.encode()).hexdigest()
    fields = {"user": user, "login": login, "device": describe(login.user_agent), "time_zone": _zone(time_zone)}
    with transaction.atomic():
        if PushSubscription.objects.filter(user=user).exclude(endpoint_digest=digest).count() >= MOST_OF_A_USER:
            problem = f"At most {MOST_OF_A_USER} browsers are notified. Remove one first."
            raise Conflict(problem, code="too_many_browsers")
        row, _ = PushSubscription.objects.update_or_create(endpoint_digest=digest, defaults=fields | _sealed(new))
        audit.record("PushSubscribed", details={"user": user.username, "browser": str(row.id), "device": row.device})
    return row


def list_of(user: User) -> list[PushSubscription]:
    """Return the browsers of a user, the oldest first."""
    return list(PushSubscription.objects.filter(user=user))


def find(user: User, subscription_id: UUID) -> PushSubscription:
    """Return a browser of the user. Raises NotFound."""
    row = PushSubscription.objects.filter(user=user, pk=subscription_id).first()
    if row is None:
        raise NotFound("There is no such browser.")
    return row


def change(user: User, subscription_id: UUID, preferences: Preferences) -> None:
    """Change what a browser of the user is notified of. Raises NotFound."""
    if not PushSubscription.objects.filter(user=user, pk=subscription_id).update(**preferences.fields()):
        raise NotFound("There is no such browser.")


def remove(user: User, subscription_id: UUID) -> None:
    """Notify a browser of the user no longer. Audited. Raises NotFound."""
    with transaction.atomic():
        find(user, subscription_id).delete()
        audit.record("PushUnsubscribed", details={"user": user.username, "browser": str(subscription_id)})


def is_quiet(row: PushSubscription, now: datetime) -> bool:
    """Return whether it is within the quiet hours of a browser."""
    if row.quiet_from is None or row.quiet_until is None:
        return False
    local = now.astimezone(ZoneInfo(_zone(row.time_zone))).time()
    if row.quiet_from <= row.quiet_until:
        return row.quiet_from <= local < row.quiet_until
    return local >= row.quiet_from or local < row.quiet_until


def decoded(text: str) -> bytes:
    """Return the bytes of a text in base64url without padding. Raises ValueError."""
    if "+" in text or "/" in text:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _sealed(new: NewSubscription) -> dict[str, str]:
    sealed = {"endpoint_sealed": vault.seal(new.endpoint), "auth_sealed": vault.seal(new.auth)}
    return {**sealed, "public_key": new.p256dh}


def _check_endpoint(endpoint: str) -> None:
    """Raise InvalidInput unless notices may be sent there."""
    if not endpoint.startswith("https://") and not _is_reachable(endpoint):
        raise InvalidInput("The address of a push service begins with https://.", code="push_endpoint")
    if len(endpoint) > _MOST_CHARACTERS:
        raise InvalidInput("The address of the push service is too long.", code="push_endpoint")
    try:
        ssrf_guard.check_url(endpoint, allowed_private=settings.KOMAND_CALLBACK_ALLOW_PRIVATE)
    except ssrf_guard.RefusedTargetError as error:
        raise InvalidInput(f"The push service cannot be used. {error}", code="push_endpoint") from None


def _is_reachable(endpoint: str) -> bool:
    """Return whether an operator has named the host and port, as for tests of a push service in the own network."""
    return endpoint.startswith("http://") and endpoint[7:].split("/")[0] in settings.KOMAND_CALLBACK_ALLOW_PRIVATE


def _zone(name: str) -> str:
    """Return the name of a time zone, UTC for an unknown one."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
