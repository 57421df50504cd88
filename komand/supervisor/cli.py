"""The commands that run without Django."""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

from komand.supervisor import preflight, restart, status
from komand.supervisor.options import Options, parse_up
from komand.supervisor.screen import Screen
from komand.supervisor.supervisor import Supervisor


def main(argv: Sequence[str]) -> int:
    """argv: the command and its flags, `["up", "--port", "8000"]`. Returns the exit code."""
    command, *flags = argv
    if command == "status":
        return status.main(flags)
    if command == "restart":
        return restart.main(flags)
    return up(parse_up(flags))


def up(options: Options) -> int:
    try:
        preflight.check_python()
        preflight.check_packages(options)
        preflight.open_data_dir(options.data_dir)
        lock = preflight.take_lock(options.data_dir)
        listener = preflight.open_listener(options.host, options.port)
    except preflight.NotReady as problem:
        sys.stderr.write(f"komand: {problem}\n")
        return 1
    screen = Screen()
    screen.say(f"\n  {screen.paint('Komand', 'bold')} starts on {options.data_dir}\n")
    try:
        return asyncio.run(_run(options, listener, screen))
    finally:
        screen.close()
        listener.close()
        os.close(lock)


async def _run(options: Options, listener: socket.socket, screen: Screen) -> int:
    return await Supervisor(options, listener, screen).run()
