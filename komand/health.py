"""Health endpoints: `/health` for people, `/health/live` and `/health/ready` for a supervisor or orchestrator.

No login, no secrets in the answers, short time limits.
"""

import errno
import logging
import os
import shutil
from collections.abc import Callable

from django.conf import settings
from django.db import connection
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from audit_app.kernel import liveness, valkey
from audit_app.kernel.liveness import shared_folder
from komand import schema_check

logger = logging.getLogger(__name__)

_LEAST_FREE_BYTES = 1_000_000
_KEPT_SECONDS = 10
_DATA_FOLDER = "data_folder"


def ping_database() -> None:
    """Run one query. Raises what the database raises."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def ping_valkey() -> None:
    """Store a short-lived key in Valkey: one that is full or read-only still answers a ping. Raises RedisError."""
    valkey.sync_client().set(f"{settings.KOMAND_REDIS_PREFIX}health", "1", ex=_KEPT_SECONDS)


def check_storage() -> None:
    """Raise OSError if the data folder has no space left."""
    if shutil.disk_usage(settings.DATA_DIR).free < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_PARTS: dict[str, Callable[[], None]] = {"database": ping_database, "storage": check_storage, "valkey": ping_valkey}


def check_parts() -> dict[str, str]:
    """Return `ok`, `unreachable` or what to do for each part that this process needs."""
    found = {}
    for name, ping in _PARTS.items():
        try:
            ping()
            found[name] = "ok"
        except (DatabaseError, RedisError, OSError) as error:
            found[name] = _state_of(error)
            logger.warning("%s is %s: %s", name, found[name], error)
    if found["database"] != "ok":
        return found
    if missing := schema_check.count_missing():
        found["schema"] = schema_check.describe(missing)
    elif strangers := liveness.find_strangers():
        found[_DATA_FOLDER] = f"{shared_folder.describe(strangers)}; {shared_folder.REMEDY}"
        logger.warning("the data folder is %s", found[_DATA_FOLDER])
    return found


def _state_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "full; make room on the disk of the data folder"
    return refusal_of(error) if isinstance(error, ResponseError) else "unreachable"


def refusal_of(error: ResponseError) -> str:
    """Return why a Valkey that answers does not write, and what to do."""
    if "MISCONF" in str(error):  # it cannot write its file
        return "read-only; make room on its disk"
    if isinstance(error, OutOfMemoryError):
        return "full; raise its maxmemory"
    return "read-only; check that REDIS_URL leads to the primary server"


def _answer(status: str, checks: dict[str, str], code: int) -> JsonResponse:
    success = code == 200
    error = (
        None if success else "Not ready: " + ", ".join(_problem(*check) for check in checks.items() if check[1] != "ok")
    )
    data = {"status": status, "checks": checks} if checks else {"status": status}
    return JsonResponse(
        {"success": success, "data": data, "error": error, "meta": None},
        status=code,
        headers={"Cache-Control": "no-store"},
    )


def _problem(name: str, state: str) -> str:
    return name if state == "unreachable" else f"{name}: {state}"


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """Liveness: this process answers. If it fails, restart the process."""
    return _answer("ok", {}, 200)


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Readiness: database and Valkey work, and there is space. If it fails (503), route no requests here, but do not
    restart.

    A data folder that is not shared is named, but does not fail it: every process would find the same.
    """
    checks = check_parts()
    works = all(state == "ok" for name, state in checks.items() if name != _DATA_FOLDER)
    return _answer(_status_of(checks), checks, 200 if works else 503)


@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """The same checks in the REST envelope: 200 as long as this process answers."""
    checks = check_parts()
    return _answer(_status_of(checks), checks, 200)


def _status_of(checks: dict[str, str]) -> str:
    return "ok" if all(state == "ok" for state in checks.values()) else "degraded"
