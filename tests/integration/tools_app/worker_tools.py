"""Tools that sleep where a test asks for it, and keep a ledger of the processes that ran them."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from tools_app.types import Effect, Risk, Tool, ToolContext, ToolSpec

_PARAMETERS = {
    "type": "object",
    "properties": {
        "ledger": {"type": "string", "description": "A file: each beginning adds a line with the process id."},
        "stubborn": {"type": "boolean", "description": "Ignore the soft limit."},
    },
    "required": ["ledger"],
    "additionalProperties": False,
}


class SleepOnce(Tool):
    """Sleeps a minute in its first call with a ledger, and returns at once afterwards."""

    spec = ToolSpec("sleep_once", "Sleeps; may not be repeated.", _PARAMETERS, Effect.ONCE, Risk.LOW)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        ledger = Path(arguments["ledger"])
        is_first = not ledger.exists()
        with ledger.open("a") as file:
            file.write(f"{os.getpid()}\n")
        deadline = time.monotonic() + (60 if is_first else 0)
        while time.monotonic() < deadline:
            try:
                time.sleep(deadline - time.monotonic())  # a tool that takes a minute
            except SoftTimeLimitExceeded:
                if not arguments.get("stubborn"):
                    raise
        return "slept"


class SleepAgain(SleepOnce):
    spec = ToolSpec("sleep_again", "Sleeps; may be repeated.", _PARAMETERS, Effect.READ, Risk.LOW)


class Misbehave(Tool):
    """Misbehaves as a test demands, endlessly: prints, forks, or ignores termination signals."""

    spec = ToolSpec(
        "misbehave",
        "Misbehaves.",
        {
            "type": "object",
            "properties": {
                "ledger": {"type": "string", "description": "A file: gets the process id."},
                "how": {"enum": ["print", "fork", "ignore"], "description": "What to do."},
            },
            "required": ["ledger", "how"],
            "additionalProperties": False,
        },
        Effect.ONCE,
        Risk.LOW,
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        Path(arguments["ledger"]).write_text(f"{os.getpid()}\n")
        if arguments["how"] == "ignore":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        while True:
            if arguments["how"] == "print":
                print("x" * 200)  # noqa: T201 - what it is for
                time.sleep(0.01)  # or the disk would be full first
            elif arguments["how"] == "fork":
                if os.fork() == 0:
                    return "from a copy"
                time.sleep(0.1)  # or the machine would have no process left
            else:
                time.sleep(1)  # without an end, and without load
