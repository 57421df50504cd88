"""The processes without pages load nothing that only pages need: it would cost each of them memory."""

import os
import subprocess
import sys

from tests.support.live_server import ROOT

PROGRAM = """
import sys
import django
django.setup()
import komand.worker, komand.connections
pages = ("django.contrib.admin", "django.contrib.sessions", "unfold", "rest_framework", "drf_spectacular")
command_line = ("celery.bin.celery", "prompt_toolkit")
print(*(name for name in ("openai", *command_line, *pages) if name in sys.modules))
"""


def test_workers_load_no_pages_and_no_model_sdk() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "komand.settings.worker"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr or done.stdout
