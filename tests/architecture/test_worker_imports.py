"""A process loads nothing that only other processes need: it would cost each of them memory."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.support.live_server import ROOT

WORKER = """
import django
django.setup()
import komand.worker, komand.connections
"""
PAGES = ("django.contrib.admin", "django.contrib.sessions", "unfold", "rest_framework")
BUCKETS = ("boto3", "storages.backends")
COMMAND_LINE = ("celery.bin.celery", "prompt_toolkit")
WEB = """
import komand.server
from django.urls import get_resolver
get_resolver().reverse_dict
"""


def loaded(program: str, names: Sequence[str], settings: str, folder: Path) -> list[str]:
    """Return the modules of these names that a program has loaded, run with the default database."""
    assert all(map(find_spec, names))
    program += f"import sys\nprint(*(name for name in {names} if name in sys.modules))"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": settings, "KOMAND_DATA_DIR": str(folder)}
    environment.pop("DATABASE_URL", None)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_workers_load_no_pages_no_model_sdk_and_nothing_of_buckets(tmp_path: Path) -> None:
    assert not loaded(WORKER, ("openai", *BUCKETS, *COMMAND_LINE, *PAGES), "komand.settings.worker", tmp_path)


def test_the_web_process_loads_no_model_sdk_nothing_of_buckets_and_on_sqlite_no_client_of_postgresql(
    tmp_path: Path,
) -> None:
    assert not loaded(WEB, ("openai", "psycopg", *BUCKETS), "komand.settings.web", tmp_path)
