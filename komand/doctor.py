"""Health check of an installation, part by part, with a remedy for each problem. `manage.py doctor` prints it."""

import os
import platform
import shlex
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core import checks
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError
from kombu import Connection
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError, ResponseError

from agents_app import selectors as agents
from agents_app.costs import usage_report
from agents_app.models import Agent, ModelProvider
from audit_app.chain import verification
from audit_app.kernel import liveness, redact
from audit_app.kernel.errors import AppError
from audit_app.kernel.liveness import shared_folder
from audit_app.models import AuditEntry
from komand import __version__, channel_checks, data_folder, health, schema_check
from komand.backup import history
from komand.findings import SEVERITIES, UNEXAMINED, Finding
from komand.settings import env
from tools_app import conf, selectors
from tools_app.models import McpServer
from tools_app.sandbox import python_process
from tools_app.secrets import vault
from tools_app.storage import file_store

_PROBE_SECONDS = 5
_LONGEST_UNSEALED = timedelta(minutes=10)
_LONGEST_UNVERIFIED = timedelta(hours=48)
_UP = "start it: python manage.py up"
_NOT_READABLE = "check its disk; if the file is damaged, restore a backup: docs/operations.md"
_PROCESSES = {"web": "the web process", "runs": "a runs worker", "tools": "a tools worker"}
_OPENAI_URL = "https://api.openai.com/v1"
_WITH_MODEL_LIST = ("openai", "openai_responses")


Examination = Callable[[], Iterator[Finding]]


def examine() -> Iterator[Finding]:
    """Return every finding, what others depend on first. Never raises. Skips the database's content if it is broken."""
    examinations: list[Examination] = [
        _python,
        check_settings,
        _data_folder,
        check_modes,
        _files,
        check_database,
        _broker,
        _processes,
        _tool_calls,
        _queued_runs,
        _static,
        _python_tool,
        _audit_log,
        check_backup,
        _providers,
        _prices,
        channel_checks.check_channels,
        _mcp_servers,
    ]
    in_database = {_tool_calls, _queued_runs, _audit_log, check_backup, _providers, _prices, _mcp_servers}
    in_database.add(channel_checks.check_channels)
    if connection.vendor != "sqlite":
        in_database.add(_processes)
    return run(examinations, in_database)


def run(examinations: Sequence[Examination], in_database: Collection[Examination]) -> Iterator[Finding]:
    """Yield the findings of these examinations, without those in the database once it has turned out to be broken."""
    has_database = True
    for examination in examinations:
        if examination in in_database and not has_database:
            continue
        name = examination.__name__.strip("_").replace("_", " ")
        try:
            for finding in examination():
                has_database = has_database and (finding.name != "database" or finding.ok)
                yield finding
        except Exception as error:  # a part that cannot even be examined is a finding too
            detail = f"could not be examined: {error}"
            yield Finding(name, False, detail, "see the logs of the processes", UNEXAMINED)


def _python() -> Iterator[Finding]:
    yield Finding("komand", True, f"{__version__}, on {platform.platform()}")
    ok = sys.version_info >= (3, 11) and sqlite3.sqlite_version_info >= (3, 35)
    mend = "" if ok else "use Python 3.11 or newer, built with SQLite 3.35 or newer"
    yield Finding("python", ok, f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}", mend)


def check_settings() -> Iterator[Finding]:
    messages = checks.run_checks()
    for message in messages:
        known = str(message.id) if message.id in SEVERITIES else ""
        yield Finding("settings", not message.is_serious(), str(message.msg), str(message.hint or ""), known)
    if not messages:
        yield Finding("settings", True, "consistent")


def _data_folder() -> Iterator[Finding]:
    folder = Path(settings.DATA_DIR)
    writable = folder.is_dir() and os.access(folder, os.W_OK)
    yield Finding(
        "data folder", writable, str(folder), "" if writable else f"make it writable: chown -R {os.getuid()} {folder}"
    )
    try:
        health.check_storage()
    except OSError as error:
        yield Finding("disk", False, error.strerror or str(error), "make room on the disk of the data folder")


def check_modes() -> Iterator[Finding]:
    folder = Path(settings.DATA_DIR)
    found = [str(path) for path in data_folder.find_open(folder)]
    if found:
        detail = f"other users have access to {len(found)} of its entries, such as {found[0]}"
        yield Finding("data modes", False, detail, f"chmod -R go= {shlex.quote(str(folder))}", "files.modes")
    else:
        yield Finding("data modes", True, "only their owner has access")


def _files() -> Iterator[Finding]:
    if not settings.KOMAND_S3_BUCKET:
        return
    store = file_store.current()
    try:
        store.check()
        yield Finding("files", True, f"{store} stores, lists, returns and deletes them")
    except AppError as error:
        detail = redact.masked_text(f"{store}: {error.__cause__ or error}")
        mend = "check the settings KOMAND_S3_…, the rights of its keys, and that its server runs"
        yield Finding("files", False, detail, mend)


def check_database() -> Iterator[Finding]:
    kind = connection.vendor
    try:
        executor = MigrationExecutor(connection)
        pending = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError as error:
        where = "check DATABASE_URL and that the server runs" if env.text("DATABASE_URL") else _NOT_READABLE
        yield Finding("database", False, f"{kind}: {str(error).strip()}", where, UNEXAMINED)
        return
    detail = f"{kind}, {pending} migrations not applied" if pending else f"{kind}, up to date"
    yield Finding("database", not pending, detail, schema_check.COMMAND if pending else "")


def _broker() -> Iterator[Finding]:
    mend = _UP if env.is_embedded() else "check REDIS_URL and that the server runs"
    kind = "embedded" if env.is_embedded() else "REDIS_URL"
    try:
        health.ping_valkey()
        yield Finding("valkey", True, f"{kind}, takes commands")
    except ResponseError as error:
        yield Finding("valkey", False, f"{kind}: {error}", health.refusal_of(error))
        return  # it takes connections, but no tasks
    except (RedisError, OSError) as error:
        yield Finding("valkey", False, f"{kind}: {error}", mend)
    broker = Connection(settings.CELERY["broker_url"], transport_options={"socket_connect_timeout": 2})
    with broker:
        try:
            broker.ensure_connection(max_retries=1, timeout=2)
            yield Finding("broker", True, "takes tasks")
        except (OSError, OperationalError) as error:
            yield Finding("broker", False, str(error), mend)


def _processes() -> Iterator[Finding]:
    alive = [process for process in liveness.list_processes() if process.alive]
    if strangers := liveness.find_strangers():
        detail = f"{settings.DATA_DIR} is {shared_folder.describe(strangers)}"
        yield Finding("shared data folder", False, detail, shared_folder.REMEDY)
    for name, words in _PROCESSES.items():
        found = [f"{process.host}:{process.pid}" for process in alive if process.name == name]
        yield Finding(f"process {name}", bool(found), ", ".join(found) or f"{words} is missing", "" if found else _UP)


def _tool_calls() -> Iterator[Finding]:
    if untaken := selectors.count_untaken():
        detail = f"calls that no worker has taken for {conf.UNTAKEN_SECONDS} s: {untaken:,}"
        mend = "if the tools workers are busy, start more (up: --tool-workers); else restart them: see their logs"
        yield Finding("tool calls", False, detail, mend)
    else:
        yield Finding("tool calls", True, "workers take them")


def _queued_runs() -> Iterator[Finding]:
    most = settings.KOMAND_MAX_RUNNING_PER_USER
    waiting = [f"{actor}: {count:,}" for actor, count in agents.count_waits_for_place().items()]
    detail = (
        f"users with more than {most:,} runs (KOMAND_MAX_RUNNING_PER_USER), and how many wait: {', '.join(waiting)}"
    )
    yield Finding("queued runs", True, detail if waiting else "no user has too many")


def _static() -> Iterator[Finding]:
    missing = [name for name in ("django_htmx/htmx-2.min.js", "unfold/css/styles.css") if not finders.find(name)]
    detail = f"missing: {', '.join(missing)}" if missing else "found"
    yield Finding(
        "static files", not missing, detail, "install the requirements again: make install" if missing else ""
    )


def _python_tool() -> Iterator[Finding]:
    if not settings.KOMAND_PYTHON_TOOL:
        yield Finding("python tool", True, "off")
        return
    try:
        isolation = python_process.examine()
        problem = isolation.lacks
    except python_process.NotIsolated as error:
        problem = str(error)
    if not problem:
        granted = ", ".join(f"{name} {value}" for name, value in isolation.granted.items())
        yield Finding("python tool", True, f"the kernel denies {', '.join(isolation.held)} ({granted})")
    elif settings.KOMAND_PYTHON_UNISOLATED:
        yield Finding("python tool", True, f"runs code unisolated, as KOMAND_PYTHON_TOOL is set; {problem}")
    else:
        mend = "use a kernel with seccomp and Landlock (Linux 5.13 on x86-64 or ARM64), or unset KOMAND_PYTHON_TOOL"
        yield Finding("python tool", False, f"refuses to run code; {problem}", mend)


def _audit_log() -> Iterator[Finding]:
    name, command = "audit log", "python manage.py verify_receipts"
    oldest = AuditEntry.objects.filter(number=None).order_by("id").first()
    if oldest and oldest.at < datetime.now(UTC) - _LONGEST_UNSEALED:
        yield Finding(
            name, False, f"entries since {oldest.at:%Y-%m-%d %H:%M} are not sealed", f"a runs worker does it: {_UP}"
        )
    if problem := verification.find_lost_end():
        detail = f"its end, and other rows of that time, may be lost: {problem}"
        mend = "copy the whole data folder, or restore a backup of manage.py backup"
        yield Finding(name, False, detail, f"{mend}; to accept the loss: {command} --accept-end")
    last = verification.last_result(full=True)
    if last is None:
        yield Finding(name, True, "not verified yet: the first verification comes with the first entries")
        return
    newest = verification.last_result(full=False)
    if newest and newest.details["broken"]:
        last = newest
    at, details = f"{last.at:%Y-%m-%d %H:%M}", last.details
    if details["broken"]:
        first = details["faults"][0]
        detail = (
            f"broken, found {at}, at entry {first['number']} of {first['at'] or 'an unknown time'}: {first['detail']}"
        )
        yield Finding(name, False, detail, f"see docs/receipts.md, and verify again: {command}")
    elif last.at < datetime.now(UTC) - _LONGEST_UNVERIFIED:
        yield Finding(name, False, f"last verified {at}", f"a runs worker does it daily: {_UP}; or now: {command}")
    else:
        yield Finding(name, True, f"verified {at}, unbroken up to entry {details['last']}")


def check_backup() -> Iterator[Finding]:
    """Yield when the last backup was made. Others than of `manage.py backup` are not known, so none is no problem."""
    last = history.last_made()
    yield Finding("backup", True, f"last made {last:%Y-%m-%d %H:%M}" if last else "none made by manage.py backup yet")


def _providers() -> Iterator[Finding]:
    used = set(Agent.objects.filter(retired_at=None).values_list("provider_id", flat=True))
    for row in ModelProvider.objects.filter(is_enabled=True):
        if row.kind not in _WITH_MODEL_LIST:
            yield Finding(f"provider {row.name}", True, "built in" + (", in use" if row.pk in used else ""))
        else:
            yield _endpoint(row)


def _prices() -> Iterator[Finding]:
    if calls := usage_report.count_uncapped_calls():
        detail = f"caps are set, but {calls:,} calls of this month had no price, which no cap counts"
        yield Finding("prices", False, detail, "set prices: admin → Model providers, or PUT /api/model-prices")


def _mcp_servers() -> Iterator[Finding]:
    for server in McpServer.objects.filter(is_enabled=True, state="needs_authorization"):
        yield Finding(f"mcp server {server}", False, server.last_error, "admin → MCP servers: press Authorize")


def _request_models(row: ModelProvider, place: str) -> httpx2.Response:
    key = vault.unseal(row.api_key_sealed) if row.api_key_sealed else ""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.get(f"{place}/models", headers=headers, timeout=_PROBE_SECONDS, follow_redirects=False)


def _endpoint(row: ModelProvider) -> Finding:
    """Check an OpenAI-compatible server and its key by listing its models."""
    name, place = f"provider {row.name}", row.base_url or _OPENAI_URL
    page = "admin → Model providers"
    try:
        answer = _request_models(row, place)
    except AppError as error:
        return Finding(name, False, error.message, f"enter the key again: {page}")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Finding(
            name, False, f"{place} does not answer: {error}", f"check the address ({page}) and that the server runs"
        )
    if answer.status_code in (401, 403):
        return Finding(name, False, f"{place} refuses the key ({answer.status_code})", f"enter a valid key: {page}")
    works = answer.status_code < 500
    mend = "" if works else "look at that server, or choose another provider"
    return Finding(name, works, f"{place} answers {answer.status_code}", mend)
