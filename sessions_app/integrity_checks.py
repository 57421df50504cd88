"""Eleven invariants of the stored rows, which hold after any crash. Reads only.

A query finds the rows that break a rule. It also finds states that a healthy installation passes through for a moment,
such as a run that is due and not yet claimed: check a live installation twice and count what both checks find.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from audit_app.event_types import event_types
from audit_app.kernel import liveness
from audit_app.retention import days_ago
from tools_app import conf
from tools_app.storage import file_store


@dataclass(frozen=True)
class Invariant:
    """A rule, and the query that finds the rows that break it.

    number: 1 to 11; several rules may share one.
    finding: the message for a row; `{0}` is the first column of the query.
    sql: with the names that `_names` fills in.
    """

    number: int
    rule: str
    finding: str
    sql: str


@dataclass(frozen=True)
class Violation:
    """A row that breaks an invariant. text: a line for people, the same each time the same row is found."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.text}"


def _read_invariants() -> Iterator[Invariant]:
    """Yield the blocks of integrity_checks.sql: `-- number: rule`, `-- finding`, and the query."""
    for block in Path(__file__).with_suffix(".sql").read_text().split("\n\n"):
        rule, finding, sql = block.split("\n", 2)
        number, text = rule.removeprefix("-- ").split(": ", 1)
        yield Invariant(int(number), text, finding.removeprefix("-- "), sql)


INVARIANTS = tuple(_read_invariants())
_FILES = 11
RULES = (
    *((invariant.number, invariant.rule) for invariant in INVARIANTS),
    (_FILES, "Each file that a row refers to is in the data folder, or in the bucket if there is one."),
)
_ARTIFACTS = "SELECT session_id, blob FROM komand_artifact"
# Retention empties the path of files that it deletes. An uploaded file, which has no source, is an artifact once sent.
_ATTACHMENTS = (
    "SELECT path FROM komand_attachment WHERE status = 'stored' AND path <> '' AND (source <> '' OR turn_id IS NULL)"
)
_USER_FILES = "SELECT path FROM komand_user_file"

# The clocks of two hosts that receive messages of one chat may differ by so much.
_CLOCK_SECONDS = 1.0

# Tables with an owner, and the noun for one of their rows.
_OWNED = {"komand_run": "run", "komand_tool_execution": "execution", "komand_delivery": "delivery"}


def find_violations() -> list[Violation]:
    """Return the current violations, ordered by number. Synchronous; reads whole tables."""
    names = _names()
    found = [
        Violation(invariant.number, invariant.finding.format(*row))
        for invariant in INVARIANTS
        for row in _rows(invariant.sql.format(**names))
    ]
    return sorted([*found, *_orphaned_rows(), *_missing_files()], key=lambda violation: violation.number)


def _orphaned_rows() -> Iterator[Violation]:
    """Yield violations of invariant 2: rows whose owner is not a live process."""
    alive = {process.id.hex for process in liveness.list_processes() if process.alive}
    for table, noun in _OWNED.items():
        for row_id, owner in _rows(f"SELECT id, owner FROM {table} WHERE owner IS NOT NULL"):  # noqa: S608 - constants
            if str(owner).replace("-", "") not in alive:
                yield Violation(2, f"{noun} {row_id} is owned by process {owner}, which is not alive")


def _missing_files() -> Iterator[Violation]:
    for path in file_store.current().find_missing(list_stored_files(_rows)):
        yield Violation(_FILES, f"the file {path} is missing")


def list_stored_files(read: Callable[[str], Iterable[Sequence[Any]]]) -> list[str]:
    """Return the names of all files that rows refer to, which are paths in the data folder or in a backup.

    read: returns the rows of a query, from the database or from a copy of it.
    """
    artifacts = [f"artifacts/{UUID(str(session))}/{UUID(str(blob))}" for session, blob in read(_ARTIFACTS)]
    attachments = [f"attachments/{path}" for query in (_ATTACHMENTS, _USER_FILES) for (path,) in read(query)]
    return sorted([*artifacts, *attachments])


def find_missing_files(folder: Path, paths: Iterable[str]) -> list[str]:
    """Return the paths that are no files of the folder."""
    return [path for path in paths if not (folder / path).is_file()]


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _names() -> dict[str, str]:
    """Return the SQL for the names in braces: r is a run, s a step, m an inbound message, b the one before it."""
    is_postgresql = connection.vendor == "postgresql"
    length = "jsonb_array_length" if is_postgresql else "json_array_length"
    audited = [(event_type.name, event_type.audit) for event_type in event_types if event_type.audit]
    return {
        "index": '"index"',  # a keyword of SQL
        "open": "('queued', 'running', 'waiting')",
        "ends": _quoted(event_type.name for event_type in event_types if event_type.terminal),
        "first": "(r.parent_id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM komand_run e"
        " WHERE e.conversation_id = r.conversation_id AND e.parent_id IS NULL"
        " AND e.status IN ('queued', 'running', 'waiting') AND e.ordinal < r.ordinal))",
        "calls": '(SELECT COUNT(*) FROM komand_tool_execution x WHERE x.run_id = s.run_id AND x.step = s."index"'
        " AND x.batch_id IS NULL)",
        "is_answer": "run_id IS NOT NULL AND status <> 'draft' AND kind <> 'step'",
        "last_text": f"(SELECT CASE WHEN {length}(s.tool_calls) = 0 THEN s.text ELSE '' END"  # noqa: S608 - constants
        " FROM komand_step s WHERE s.run_id = r.id AND s.call_kind = 'model'"
        ' ORDER BY s."index" DESC LIMIT 1)',
        # Older rows may have been deleted by retention.
        "kept_events": _younger("r.created_at", settings.KOMAND_TIMELINE_DAYS),
        "kept_steps": _younger("r.created_at", settings.KOMAND_STEP_DAYS),
        "kept_entries": _younger("ts", settings.KOMAND_AUDIT_DAYS, in_ms=True),
        "length": length,
        "seconds_apart": "EXTRACT(EPOCH FROM m.received_at - b.received_at)"
        if is_postgresql
        else "(julianday(m.received_at) - julianday(b.received_at)) * 86400",
        # The setting of the time at which they were stored. Rows of earlier versions do not have it.
        "burst": f"(CAST(COALESCE(m.metadata ->> 'burstMs', '{settings.KOMAND_BURST_MS}') AS NUMERIC) / 1000.0"
        f" + {_CLOCK_SECONDS})",
        "attempts": str(conf.MAX_ATTEMPTS),
        "cases": " ".join(f"WHEN '{name}' THEN '{action}'" for name, action in audited),
        "types": _quoted(name for name, _ in audited),
        "actions": _quoted(action for _, action in audited),
    }


def _quoted(names: Iterable[str]) -> str:
    return "({})".format(", ".join(f"'{name}'" for name in sorted(set(names))))


def _younger(column: str, days: int, *, in_ms: bool = False) -> str:
    """Return the condition that retention cannot have deleted anything of a row. days: 0 keeps rows for ever."""
    if not days:
        return "1 = 1"
    edge = days_ago(days)
    return f"{column} > {int(edge.timestamp() * 1000)}" if in_ms else f"{column} > '{edge:%Y-%m-%d %H:%M:%S}'"
