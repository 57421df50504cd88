"""Settings of a real tools worker in tests: the test's own database, and misbehaving tools."""

import os
import signal
import time

from komand.settings.worker import *  # noqa: F403
from komand.settings.worker import DATABASES, KOMAND_TOOLS

DATABASES["default"]["NAME"] = os.environ["KOMAND_TEST_DATABASE_NAME"]
KOMAND_TOOLS = [
    *KOMAND_TOOLS,
    "tests.integration.tools_app.worker_tools.SleepOnce",
    "tests.integration.tools_app.worker_tools.SleepAgain",
    "tests.integration.tools_app.worker_tools.Misbehave",
]

signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3600))  # the main thread hangs
