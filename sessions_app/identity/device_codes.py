"""Codes with which a device of a user gets an API key of its own. The user makes one on a page, and it works once.

People type it, so it is short: it lasts ten minutes, and the guesses of everybody together are limited. Only its digest
is stored, in Valkey.
"""

import json
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.crypto import salted_hmac
from redis.exceptions import RedisError

from audit_app import services as audit
from audit_app.kernel import context, valkey
from audit_app.kernel.errors import Forbidden, InvalidInput, NotFound, Unavailable
from sessions_app.identity import api_keys, rate_limits, signed_claims
from sessions_app.identity.api_keys import NewApiKey
from sessions_app.models import ApiKey

MINUTES = 10
DIGITS = 8
LONGEST_NAME = 100
# Of everybody together: with all of them, one open code is guessed once in a million windows.
_GUESSES = rate_limits.Limit("device_codes", 100, MINUTES * 60)


class WrongCode(Forbidden):
    """The code is wrong, used or expired. Make another on the page of your devices."""

    code = "wrong_code"


def make_code(user: User, scopes: Collection[str]) -> str:
    """Create a code, which replaces the user's earlier one, and audit it. scopes: of the key that it gives.

    Raises Unavailable.
    """
    code = f"{secrets.randbelow(10**DIGITS):0{DIGITS}}"
    stored = {"user": user.pk, "scopes": sorted(scopes), "stamp": signed_claims.password_stamp(user)}
    seconds, own = MINUTES * 60, _key(f"of:{user.pk}")
    with _stored() as client:
        if earlier := client.set(own, _digest(code), ex=seconds, get=True):
            client.delete(_key(earlier.decode()))
        client.set(_key(_digest(code)), json.dumps(stored), ex=seconds)
    audit.record("DeviceCodeMade", actor=f"user:{user.pk}", details={"scopes": stored["scopes"]})
    return code


def redeem_code(text: str, name: str, *, address: str) -> NewApiKey:
    """Use up a code and return a new key of its user.

    text: as it was typed.
    address: of who sends it.
    Owns its transaction; audited. Raises InvalidInput (code_required), WrongCode, RateLimited, Unavailable.
    """
    code = "".join(sign for sign in text if sign.isdecimal() and sign.isascii())
    if not code:
        raise InvalidInput("Send the code of the page of your devices.", code="code_required")
    rate_limits.take(rate_limits.login_limit(), f"address:{address}")
    rate_limits.take(_GUESSES, "everybody")
    with _stored() as client:
        found = client.getdel(_key(_digest(code)))
    stored: dict[str, Any] = json.loads(found) if found else {}
    user = User.objects.filter(pk=stored["user"]).first() if stored else None
    if user is None or not signed_claims.is_unchanged(user, stored["stamp"]):
        raise WrongCode
    with context.bind(actor=f"user:{user.pk}"):
        return api_keys.create_api_key(user, name[:LONGEST_NAME], scopes=stored["scopes"])


def list_devices(user: User, scope: str) -> list[ApiKey]:
    """Return the valid keys of the user that have the scope, newest first."""
    now = timezone.now()
    keys = [key for key in api_keys.list_api_keys(user) if key.revoked_at is None and scope in key.scopes]
    return [key for key in keys if key.expires_at is None or key.expires_at > now]


def remove_device(user: User, scope: str, key_id: UUID) -> None:
    """Revoke and audit one of the keys of `list_devices`. Raises NotFound."""
    if all(key.pk != key_id for key in list_devices(user, scope)):
        raise NotFound("There is no such device.")
    api_keys.revoke_api_key(user, key_id)


@contextmanager
def _stored() -> "Iterator[Any]":
    try:
        yield valkey.sync_client()
    except RedisError as error:
        raise Unavailable("Devices cannot be paired now. Try again.") from error


def _key(name: str) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}device-code:{name}"


def _digest(code: str) -> str:
    return salted_hmac("sessions_app.identity.device_codes", code).hexdigest()
