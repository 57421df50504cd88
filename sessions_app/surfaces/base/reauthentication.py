"""Periodic checks that the credential of an open connection is still valid."""

import asyncio
import logging
from collections.abc import Callable

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError

logger = logging.getLogger(__name__)

CHECK_SECONDS = 30.0


async def until_refused(check: Callable[[], object]) -> AppError:
    """Call `check` every CHECK_SECONDS until it raises an AppError, and return that. check: synchronous.

    Other exceptions are logged and ignored: an unreachable database does not end connections.
    """
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await in_db(check)
        except AppError as error:
            return error
        except Exception as error:
            logger.warning("cannot check whether a connection is still allowed: %r", error)
