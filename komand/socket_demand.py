"""Has the supervisor start the process `sockets` while an account needs it. Runs in each runs worker."""

import asyncio
import logging
import os

from audit_app.kernel.database import in_db
from audit_app.kernel.outage import outages
from komand import sd_notify
from sessions_app.channels.connections import claims

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0


async def run() -> None:
    """Look every two seconds until cancelled. Under systemd, which has a unit for it, the message has no effect."""
    while os.environ.get("NOTIFY_SOCKET"):
        try:
            if await in_db(claims.list_listening):
                sd_notify.request_sockets()
        except Exception as error:
            outages.failed(logger, error, "cannot look for accounts that need a connection; retrying")
        await asyncio.sleep(_LOOK_SECONDS)
