"""The commands that run without Django."""

import asyncio
import os
import sys
from collections.abc import Sequence

from komand import data_folder
from komand.supervisor import preflight, restart, state, status
from komand.supervisor.console import Screen
from komand.supervisor.options import Options, parse_up
from komand.supervisor.supervisor import Supervisor


def main(argv: Sequence[str]) -> int:
    """Run a command and return its exit code. argv: the command and its flags, `["up", "--port", "8000"]`."""
    command, *flags = argv
    try:
        if command == "status":
            return status.main(flags)
        if command == "restart":
            return restart.main(flags)
        return up(parse_up(flags))
    except preflight.NotReady as problem:
        sys.stderr.write(f"komand: {problem}\n")
        return 1


def up(options: Options) -> int:
    data_folder.restrict_new_files()
    try:
        preflight.check_python()
        preflight.check_packages(options)
        preflight.open_data_dir(options.data_dir)
        lock = preflight.take_lock(options.data_dir)
        state.remove(options.data_dir)  # of one that was killed: nobody may take its processes for ours
        listener = preflight.bind_port(options.host, options.port)
        screen = Screen()
        supervisor = Supervisor(options, listener, screen)
    except OSError as error:  # another user's file in it, say
        place = error.filename or options.data_dir
        sys.stderr.write(f"komand: {place} cannot be used ({error.strerror}); repair it, or choose a --data-dir\n")
        return 1
    screen.print(f"\n  {screen.paint('Komand', 'bold')} starts on {options.data_dir}\n")
    try:
        return asyncio.run(supervisor.run())
    finally:
        screen.close()
        listener.close()
        os.close(lock)
