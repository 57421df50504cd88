"""Whether whoever watches may go on watching: asked now and then, for as long as a connection is open."""

import asyncio
import logging
from collections.abc import Callable

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError

logger = logging.getLogger(__name__)

CHECK_SECONDS = 30.0


async def until_refused(check: Callable[[], object]) -> AppError:
    """Why the client may not be told any longer, as soon as `check` says so by raising it. check: synchronous.

    While nobody can tell, as when the database is away, the client stays.
    """
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await in_db(check)
        except AppError as error:
            return error
        except Exception as error:
            logger.warning("whether a client may go on watching could not be looked up: %r", error)
