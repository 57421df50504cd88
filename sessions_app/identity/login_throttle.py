"""Growing delays between failed logins with one name, and a limit of failures from one network.

The lockout of single addresses is that of django-axes; this covers many addresses against one account and one network
against many accounts. No account is locked: an address from which its user logged in before is neither delayed nor
counted, and the longest delay is LONGEST_SECONDS. Counted in Valkey; while it is unavailable, nothing is delayed.
"""

import hashlib
import logging
import unicodedata
from datetime import timedelta
from typing import Any

from axes.models import AccessLog
from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from audit_app import services as audit
from audit_app.kernel import valkey
from audit_app.kernel.errors import RateLimited
from sessions_app.identity import client_ip

logger = logging.getLogger(__name__)

FREE_FAILURES = 5
FIRST_SECONDS = 2
LONGEST_SECONDS = 300
_REMEMBERED_SECONDS = 3600  # since the last failure
_USUAL = timedelta(days=90)  # since the last login from an address


class LoginDelayed(RateLimited):
    """Too many failed logins. Wait and try again."""

    code = "login_delayed"


def admit(username: str, address: str) -> bool:
    """Count an attempt before its password is checked, so that parallel ones cannot pass together.

    username: username of a user or of nobody, which makes no difference. Return whether the attempt was counted.
    Raises LoginDelayed.
    """
    try:
        return _admit(username, address)
    except RedisError as error:
        logger.warning("failed logins are not delayed: %s", error)
        return False


def forgive(username: str, address: str) -> None:
    """Take back a counted attempt whose password was right."""
    count, hold, network = _keys(username, address)
    try:
        with valkey.sync_client().pipeline(transaction=True) as pipe:
            pipe.delete(count, hold)
            pipe.decr(network)
            pipe.expire(network, settings.KOMAND_NETWORK_WINDOW_SECONDS, nx=True)
            pipe.execute()
    except RedisError as error:
        logger.warning("cannot end the delay of logins: %s", error)


def _admit(username: str, address: str) -> bool:
    client = valkey.sync_client()
    count, hold, network = _keys(username, address)
    failures, from_network, held_ms, network_ms = _look(client, count, hold, network)
    permits = settings.KOMAND_NETWORK_LIMIT
    is_network_full = permits > 0 and from_network >= permits
    if (failures >= FREE_FAILURES or is_network_full) and _is_usual(username, address):
        return False
    if held_ms > 0 or is_network_full:
        raise _delayed(max(held_ms, network_ms if is_network_full else 0))
    failures = _count(client, count, network)
    if failures > FREE_FAILURES:
        seconds = min(FIRST_SECONDS * 2 ** (failures - FREE_FAILURES - 1), LONGEST_SECONDS)
        if not client.set(hold, "1", nx=True, ex=seconds):
            raise _delayed(client.pttl(hold))
    if failures == FREE_FAILURES + 1:
        audit.record("LoginsDelayed", details={"user": username[:150], "address": address})
    return True


def _look(client: Any, count: str, hold: str, network: str) -> tuple[int, int, int, int]:
    with client.pipeline(transaction=False) as pipe:
        pipe.get(count)
        pipe.get(network)
        pipe.pttl(hold)
        pipe.pttl(network)
        failures, from_network, held_ms, network_ms = pipe.execute()
    return int(failures or 0), int(from_network or 0), held_ms, network_ms


def _count(client: Any, count: str, network: str) -> int:
    """Count a failure, and return the number of those with the name."""
    with client.pipeline(transaction=True) as pipe:
        pipe.incr(count)
        pipe.expire(count, _REMEMBERED_SECONDS)
        pipe.incr(network)
        pipe.expire(network, settings.KOMAND_NETWORK_WINDOW_SECONDS, nx=True)
        failures: int = pipe.execute()[0]
    return failures


def _delayed(milliseconds: int) -> LoginDelayed:
    return LoginDelayed(retry_after_seconds=max(1, -(-milliseconds // 1000)))


def _keys(username: str, address: str) -> tuple[str, str, str]:
    """Return the keys of the count and the delay of a name, and of the count of a network."""
    name = hashlib.sha256(unicodedata.normalize("NFKC", username).casefold().encode()).hexdigest()[:32]
    prefix = f"{settings.KOMAND_REDIS_PREFIX}login:"
    return f"{prefix}failures:{name}", f"{prefix}hold:{name}", f"{prefix}network:{client_ip.neighbourhood_of(address)}"


def _is_usual(username: str, address: str) -> bool:
    since = timezone.now() - _USUAL
    logins = AccessLog.objects.filter(username=username, attempt_time__gte=since)
    return logins.filter(ip_address=client_ip.counted(address)).exists()
