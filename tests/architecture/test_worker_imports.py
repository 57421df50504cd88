"""A process loads nothing that only other processes need: it would cost each of them memory and time to start.

The process `sockets` is in `tests/integration/komand/test_sockets.py`.
"""

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
FORK_SERVER = """
from importlib import import_module
import django
django.setup()
import komand.fork_server
for name in komand.fork_server._LATE_MODULES:
    import_module(name)
"""
PREPARE = """
import django
django.setup()
import komand.management.commands.prepare, komand.management.commands.migrate
"""
PAGES = ("django.contrib.admin", "django.contrib.sessions", "unfold", "rest_framework")
BUCKETS = ("boto3", "storages.backends")
COMMAND_LINE = ("celery.bin.celery", "prompt_toolkit")
SERVER = ("daphne", "twisted", "autobahn")
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


def test_the_fork_server_loads_no_more_than_workers(tmp_path: Path) -> None:
    names = ("openai", *BUCKETS, *COMMAND_LINE, *PAGES, *SERVER)
    assert not loaded(FORK_SERVER, names, "komand.settings.worker", tmp_path)


def test_prepare_loads_no_server_no_urls_no_model_sdk_and_on_sqlite_no_client_of_postgresql(tmp_path: Path) -> None:
    names = ("openai", "psycopg", *BUCKETS, *SERVER, "komand.urls")
    assert not loaded(PREPARE, names, "komand.settings.web", tmp_path)


def test_the_supervisor_loads_no_django_and_no_client_of_other_processes(tmp_path: Path) -> None:
    names = ("django", "celery", "redis", "httpx2", "psycopg", "jsonschema", "openai")
    assert not loaded("import komand.supervisor.cli\n", names, "", tmp_path)
