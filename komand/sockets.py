"""`manage.py sockets`: the process that holds connections to platforms for accounts without a public address.

It passes what arrives to a runs worker of the same host, which stores it (`sessions_app.channels.connections`). It runs
without Django, the database and the keys that seal secrets. `manage.py up` starts it when an account needs it.
"""

import argparse
import asyncio
import logging.config
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from komand import data_folder, sd_notify
from komand.settings import env, logging_config
from sessions_app.channels.connections.receiver import Receiver

# Once no account has needed it for this long, `--on-demand` ends it.
_IDLE_SECONDS = 60.0
_STOP_SECONDS = 15.0
_PULSE_SECONDS, _STUCK_SECONDS = 0.5, 3.0


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM, SIGINT, or nobody needs it. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="manage.py sockets", description="Hold the connections of channel accounts that receive without a webhook."
    )
    parser.add_argument("--on-demand", action="store_true", help="exit when no account has needed it for a minute")
    options = parser.parse_args(argv)
    data_folder.restrict_new_files()
    logging.config.dictConfig(logging_config.configuration())
    path = env.sockets_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        asyncio.run(_receive(path, _IDLE_SECONDS if options.on_demand else None))
    except OSError as error:
        parser.exit(
            1, f"{parser.prog}: cannot serve at {path}: {error}. Set KOMAND_SOCKETS to a short, writable path.\n"
        )
    return 0


async def _receive(path: Path, idle_seconds: float | None) -> None:
    loop = asyncio.get_running_loop()
    receiving = loop.create_task(Receiver().run(path, idle_seconds=idle_seconds))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, receiving)
    pulse = _Pulse()
    pulsing = loop.create_task(pulse.run())
    sd_notify.notify_ready()
    sd_notify.show_life(pulse.is_stuck)
    with suppress(asyncio.CancelledError):
        await receiving
    pulsing.cancel()


def _stop(receiving: "asyncio.Task[None]") -> None:
    sd_notify.end_after(_STOP_SECONDS)
    receiving.cancel()


class _Pulse:
    """Shows whether the event loop runs."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    async def run(self) -> None:
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(_PULSE_SECONDS)

    def is_stuck(self) -> bool:
        return time.monotonic() - self._at > _STUCK_SECONDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
