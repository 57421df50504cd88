"""`manage.py sockets`: the process that keeps connections open over which accounts receive without a public address.

`manage.py up` starts it when an account needs it.
"""

import asyncio
import signal
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from audit_app import liveness
from audit_app.kernel.database import close_pool, in_db
from komand import schema_check, sd_notify
from sessions_app.channels.connections.keeper import Keeper

# Once no account has needed it for this long, `--on-demand` ends it.
_IDLE_SECONDS = 60.0
_STOP_SECONDS = 15.0


class Command(BaseCommand):
    help = "Keep the connections of channel accounts open that receive without a webhook."
    requires_system_checks = []  # `manage.py prepare` has run them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--on-demand", action="store_true", help="end when no account has needed it for a minute")

    def handle(self, *args: Any, **options: Any) -> None:
        schema_check.require()
        try:
            asyncio.run(_keep(_IDLE_SECONDS if options["on_demand"] else None))
        finally:
            close_pool()


async def _keep(idle_seconds: float | None) -> None:
    """Keep connections open until SIGTERM, SIGINT, or nobody needs them; then let other processes have them."""
    loop = asyncio.get_running_loop()
    holder = await in_db(liveness.start, "sockets")
    pulse = loop.create_task(liveness.keep_pulse())
    keeping = loop.create_task(Keeper(holder).run(idle_seconds=idle_seconds))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, keeping)
    sd_notify.notify_ready()
    sd_notify.show_life(liveness.is_stuck)
    with suppress(asyncio.CancelledError):
        await keeping
    pulse.cancel()
    await in_db(liveness.stop)


def _stop(keeping: "asyncio.Task[None]") -> None:
    sd_notify.end_after(_STOP_SECONDS)
    keeping.cancel()
