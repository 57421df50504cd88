"""API keys for programs. A key is shown once, when it is created; only its digest is stored."""

import hashlib
import hmac
import secrets
import string
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app import hot_queries
from sessions_app.identity import scopes as key_scopes
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.models import ApiKey

MARK = "sk-user-"
NEVER: Literal["never"] = "never"
_ALPHABET = string.ascii_letters + string.digits
_PREFIX_LENGTH = 12
_SECRET_LENGTH = 43  # 43 of 62 letters: 256 bits, of which the stored suffix reveals 24
_SUFFIX_LENGTH = 4
_LAST_USED_STEP = timedelta(minutes=1)
# Compared with if the prefix is unknown, so that a wrong prefix takes as long as a wrong secret.
_NO_DIGEST = hashlib.sha256(b"no such key").hexdigest()


@dataclass(frozen=True)
class NewApiKey:
    """A key that was just created.

    row: the stored part.
    key: the whole key, which cannot be read again.
    """

    row: ApiKey
    key: str


class ApiKeyRefused(Unauthenticated):
    """The API key is invalid: unknown, expired or revoked."""

    code = "api_key_refused"


def create_api_key(
    user: User, name: str, *, scopes: Iterable[str], expires_at: datetime | Literal["never"] | None = None
) -> NewApiKey:
    """Create and audit a key for a user, in its own transaction.

    scopes: see `identity.scopes`, at least one surface.
    expires_at: None for KOMAND_API_KEY_DAYS from now. Raises InvalidInput (unknown_scope, scopes_required,
        expires_in_past).
    """
    wanted = key_scopes.checked(scopes)
    if expires_at is None and settings.KOMAND_API_KEY_DAYS:
        expires_at = timezone.now() + timedelta(days=settings.KOMAND_API_KEY_DAYS)
    expires_at = None if expires_at == NEVER else expires_at
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput("The expiry date is in the past. Choose a later one.", code="expires_in_past")
    prefix, secret = _random(_PREFIX_LENGTH), _random(_SECRET_LENGTH)
    with transaction.atomic():
        row = ApiKey.objects.create(
            user=user,
            name=name,
            prefix=prefix,
            digest=_digest(prefix, secret),
            suffix=secret[-_SUFFIX_LENGTH:],
            scopes=wanted,
            expires_at=expires_at,
        )
        audit.record("ApiKeyCreated", details=_audit_details(row))
    return NewApiKey(row, f"{MARK}{prefix}{secret}")


def authenticate_key(key: str) -> Principal:
    """Return the principal of a valid key. Raises ApiKeyRefused. Stores the time of use at most once a minute."""
    text = key.removeprefix(MARK)
    prefix, secret = text[:_PREFIX_LENGTH], text[_PREFIX_LENGTH:]
    row = hot_queries.FIND_API_KEY.first(prefix=prefix)
    is_right = hmac.compare_digest(row.digest if row else _NO_DIGEST, _digest(prefix, secret))
    now = timezone.now()
    if row is None or not is_right or not _is_usable(row, now):
        raise ApiKeyRefused
    if row.last_used_at is None or row.last_used_at < now - _LAST_USED_STEP:
        with transaction.atomic():
            ApiKey.objects.filter(pk=row.pk, last_used_at=row.last_used_at).update(last_used_at=now)
    return Principal(row.user, "api_key", frozenset(row.scopes), credential=f"key:{row.pk}")


def find_scopes(key_ids: Collection[UUID]) -> dict[UUID, frozenset[str]]:
    """Return the scopes of those of the keys that are valid now. One statement."""
    rows, now = ApiKey.objects.select_related("user").filter(pk__in=key_ids), timezone.now()
    return {row.pk: frozenset(row.scopes) for row in rows if _is_usable(row, now)}


def list_api_keys(user: User) -> tuple[ApiKey, ...]:
    """Return the keys of a user, newest first, including revoked ones."""
    return tuple(ApiKey.objects.filter(user=user))


def revoke_api_key(user: User, key_id: UUID) -> None:
    """Revoke and audit one of the user's keys. Idempotent. Raises NotFound."""
    row = ApiKey.objects.filter(user=user, pk=key_id).first()
    if row is None:
        raise NotFound("API key not found.")
    with transaction.atomic():
        if ApiKey.objects.filter(pk=key_id, revoked_at=None).update(revoked_at=timezone.now()):
            audit.record("ApiKeyRevoked", details=_audit_details(row))


def _is_usable(row: ApiKey, now: datetime) -> bool:
    is_expired = row.expires_at is not None and row.expires_at <= now
    return row.user.is_active and row.revoked_at is None and not is_expired


def _audit_details(row: ApiKey) -> dict[str, object]:
    return {"key_id": str(row.pk), "name": row.name, "prefix": row.prefix, "scopes": row.scopes, "user": row.user_id}


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _digest(prefix: str, secret: str) -> str:
    # A plain hash is enough: the secret is 256 random bits and cannot be guessed.
    return hashlib.sha256(f"{prefix}.{secret}".encode()).hexdigest()
