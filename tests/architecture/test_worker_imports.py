"""A process loads nothing that only other processes need: it would cost each of them memory."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.live_server import ROOT

WORKER = """
import sys
import django
django.setup()
import komand.worker, komand.connections
pages = ("django.contrib.admin", "django.contrib.sessions", "unfold", "rest_framework", "drf_spectacular")
command_line = ("celery.bin.celery", "prompt_toolkit")
print(*(name for name in ("openai", *command_line, *pages) if name in sys.modules))
"""
WEB = """
import sys
import komand.server
from django.urls import get_resolver
get_resolver().reverse_dict
print(*(name for name in ("openai", "psycopg") if name in sys.modules))
"""


def loaded(program: str, settings: str, folder: Path) -> str:
    """Return the names that a program prints, run with the default database."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": settings, "KOMAND_DATA_DIR": str(folder)}
    environment.pop("DATABASE_URL", None)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_workers_load_no_pages_and_no_model_sdk(tmp_path: Path) -> None:
    assert loaded(WORKER, "komand.settings.worker", tmp_path) == ""


def test_the_web_process_loads_no_model_sdk_and_on_sqlite_no_client_of_postgresql(tmp_path: Path) -> None:
    assert loaded(WEB, "komand.settings.web", tmp_path) == ""
