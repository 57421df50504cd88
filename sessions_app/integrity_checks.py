"""What must be true of the stored rows at any time, whatever was killed: ten invariants, each one or more queries.

Reads only. A query finds what breaks the rule; what a healthy installation passes through for a moment (a run that is
due and not claimed yet) it finds too, so whoever asks a living installation looks twice and counts what stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection

from audit_app import liveness
from audit_app.event_types import event_types
from audit_app.retention import days_ago
from tools_app import conf


@dataclass(frozen=True)
class Invariant:
    """number: 1 to 10; rule: what holds; finding: how a row that breaks it is told, by the columns of the query."""

    number: int
    rule: str
    finding: str
    sql: str


@dataclass(frozen=True)
class Violation:
    """number: of the invariant; text: one line for people, the same each time the same row is found."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.text}"


# Parts that queries share; r is a run, s a step.
_PARTS = {
    "index": '"index"',
    "open": "('queued', 'running', 'waiting')",
    "ends": "('run.completed', 'run.failed', 'run.cancelled', 'run.timed_out')",
    "first": "NOT EXISTS (SELECT 1 FROM komand_run e WHERE e.conversation_id = r.conversation_id"
    " AND e.status IN ('queued', 'running', 'waiting') AND e.ordinal < r.ordinal)",
    "no_open_call": "NOT EXISTS (SELECT 1 FROM komand_tool_execution x WHERE x.run_id = r.id"
    " AND x.status IN ('Pending', 'Running'))",
    "calls": '(SELECT COUNT(*) FROM komand_tool_execution x WHERE x.run_id = s.run_id AND x.step = s."index")',
    "is_answer": "run_id IS NOT NULL AND status <> 'draft'",
    "last_text": '(SELECT s.text FROM komand_step s WHERE s.run_id = r.id ORDER BY s."index" DESC LIMIT 1)',
}

# Tables whose rows a process holds while it works on them.
_HELD = {"komand_run": "run", "komand_tool_execution": "execution", "komand_delivery": "delivery"}

# {length}: the function that counts a JSON list; {attempts}: a number; {actions}, {types}, {cases}: from the vocabulary
# of events.
INVARIANTS = (
    Invariant(
        1,
        "a session has at most one active run",
        "session {0} has {1} active runs",
        "SELECT conversation_id, COUNT(*) FROM komand_run WHERE status IN ('running', 'waiting')"
        " GROUP BY conversation_id HAVING COUNT(*) > 1",
    ),
    Invariant(
        2,
        "an open run has a holder, a time, a call or a person to wait for",
        "nothing will move run {0} ({1} {2})",
        "SELECT id, status, waiting_on FROM komand_run r WHERE status IN {open} AND owner IS NULL"
        " AND ready_at IS NULL AND {no_open_call} AND {first}",
    ),
    Invariant(
        2,
        "a run that is due is taken",
        "run {0} ({1}) is due and nobody takes it",
        "SELECT id, status FROM komand_run r WHERE status IN {open} AND owner IS NULL"
        " AND ready_at <= CURRENT_TIMESTAMP AND {first}",
    ),
    Invariant(
        2,
        "only a running run has a holder",
        "run {0} is {1} and still has a holder",
        "SELECT id, status FROM komand_run WHERE owner IS NOT NULL AND status <> 'running'",
    ),
    Invariant(
        2,
        "an open call has a process, a bell or a person to wait for",
        "nothing will move execution {0} ({1})",
        "SELECT id, status FROM komand_tool_execution x WHERE (status = 'Running' AND owner IS NULL)"
        " OR (status = 'Pending' AND ring_at IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM komand_approval a WHERE a.execution_id = x.id AND a.status = 'pending') AND NOT EXISTS"
        " (SELECT 1 FROM komand_input_request q WHERE q.execution_id = x.id AND q.status = 'pending'))",
    ),
    Invariant(
        3,
        "an ended run has exactly one answer",
        "run {0} ({1}) has {2} answers",
        "SELECT r.id, r.status, COUNT(t.id) FROM komand_run r LEFT JOIN komand_turn t ON t.run_id = r.id"
        " AND t.is_answer WHERE r.ended_at IS NOT NULL GROUP BY r.id, r.status HAVING COUNT(t.id) <> 1",
    ),
    Invariant(
        3,
        "an answer is what the run said",
        "the answer of run {0} is not what its last step said",
        "SELECT r.id FROM komand_run r JOIN komand_turn t ON t.run_id = r.id AND t.is_answer"
        " WHERE t.content <> r.answer OR (r.status = 'completed' AND {last_text} <> t.content)",
    ),
    Invariant(
        4,
        "each tool call has one result",
        "step {1} of run {0} asked for {2} calls and has {3}",
        "SELECT s.run_id, s.{index}, {length}(s.tool_calls), {calls} FROM komand_step s"
        " WHERE {calls} <> {length}(s.tool_calls) AND"
        " ({length}(s.tool_calls) = 0 OR EXISTS (SELECT 1 FROM komand_step n WHERE n.run_id = s.run_id"
        " AND n.{index} > s.{index}))",
    ),
    Invariant(
        4,
        "no call outlives its run",
        "execution {0} is {1} although its run has ended",
        "SELECT x.id, x.status FROM komand_tool_execution x JOIN komand_run r ON r.id = x.run_id"
        " WHERE r.ended_at IS NOT NULL AND x.status IN ('Pending', 'Running')",
    ),
    Invariant(
        4,
        "each result is in the conversation",
        "run {0} made {1} calls, the conversation shows {2}",
        "SELECT r.id, (SELECT COUNT(*) FROM komand_tool_execution x WHERE x.run_id = r.id) made,"
        " (SELECT COUNT(*) FROM komand_turn t WHERE t.run_id = r.id AND t.role = 'tool') shown FROM komand_run r"
        " WHERE r.conversation_told AND (SELECT COUNT(*) FROM komand_tool_execution x WHERE x.run_id = r.id) <>"
        " (SELECT COUNT(*) FROM komand_turn t WHERE t.run_id = r.id AND t.role = 'tool')",
    ),
    Invariant(
        5,
        "an end is told once, an open run's never",
        "run {0} ({1}) has told its end {2} times",
        "SELECT r.id, r.status, COUNT(e.id) FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id"
        " AND e.type IN {ends} WHERE {kept_events} GROUP BY r.id, r.status, r.ended_at"
        " HAVING COUNT(e.id) <> CASE WHEN r.ended_at IS NULL THEN 0 ELSE 1 END",
    ),
    Invariant(
        5,
        "what is told of an end is how it ended",
        "run {0} is {1} and told {2}",
        "SELECT r.id, r.status, e.type FROM komand_run r JOIN komand_event e ON e.run_id = r.id"
        " WHERE e.type IN {ends} AND e.type <> 'run.' || r.status",
    ),
    Invariant(
        5,
        "an answer is announced once",
        "the answer of run {0} was announced {1} times",
        "SELECT r.id, COUNT(e.id) FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id"
        " AND e.type = 'message.completed' WHERE r.conversation_told AND {kept_events}"
        " GROUP BY r.id HAVING COUNT(e.id) <> 1",
    ),
    Invariant(
        5,
        "a delivery that was sent says when",
        "delivery {0} is {1} and its time says otherwise",
        "SELECT id, status FROM komand_delivery WHERE (status = 'sent') <> (sent_at IS NOT NULL)",
    ),
    Invariant(
        5,
        "an answer that a channel waits for is on its way",
        "run {0} has ended and its channel is told nothing",
        "SELECT r.id FROM komand_run r JOIN komand_turn t ON t.run_id = r.id AND t.is_answer WHERE r.conversation_told"
        " AND (t.content <> '' OR t.state = 'error')"
        " AND EXISTS (SELECT 1 FROM komand_inbound_message m WHERE m.run_id = r.id)"
        " AND NOT EXISTS (SELECT 1 FROM komand_delivery d WHERE d.run_id = r.id AND d.status <> 'draft')",
    ),
    Invariant(
        5,
        "a delivery has all its parts",
        "the delivery of run {0} has {2} parts and {1} of them",
        "SELECT run_id, COUNT(*), MAX(parts) FROM komand_delivery WHERE {is_answer} GROUP BY run_id, lane"
        " HAVING MIN(part) = 0 AND COUNT(*) <> MAX(parts)",
    ),
    Invariant(
        5,
        "a delivery is told once, when all of it was sent",
        "{1} deliveries of run {0} were sent, {2} are told",
        "SELECT d.run_id, d.n, COUNT(e.id) FROM (SELECT run_id, SUM(CASE WHEN sent = total THEN 1 ELSE 0 END) n FROM"
        " (SELECT run_id, COUNT(*) total, SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) sent FROM komand_delivery"
        " WHERE {is_answer} GROUP BY run_id, lane) lanes GROUP BY run_id) d LEFT JOIN komand_event e"
        " ON e.run_id = d.run_id AND e.type = 'delivery.sent' GROUP BY d.run_id, d.n HAVING COUNT(e.id) <> d.n",
    ),
    Invariant(
        5,
        "nothing waits to be sent for longer than it lasts",
        "delivery {0} should have been sent before {1}",
        "SELECT id, expires_at FROM komand_delivery WHERE status = 'pending' AND owner IS NULL"
        " AND expires_at <= CURRENT_TIMESTAMP",
    ),
    Invariant(
        6,
        "what must not be repeated is begun once",
        "execution {0} ({1}, {2}) was begun {3} times",
        "SELECT id, tool, effect, attempts FROM komand_tool_execution"
        " WHERE attempts > CASE WHEN effect = 'once' THEN 1 ELSE {attempts} END",
    ),
    Invariant(
        6,
        "what a person must approve is begun after that",
        "execution {0} was begun, its approval is {1}",
        "SELECT x.id, a.status FROM komand_tool_execution x JOIN komand_approval a ON a.execution_id = x.id"
        " WHERE x.attempts > 0 AND a.status <> 'approved'",
    ),
    Invariant(
        7,
        "the steps of a run have no hole",
        "run {0} has {1} steps, the last of them is number {2}",
        "SELECT r.id, COUNT(*), MAX(s.{index}) FROM komand_step s JOIN komand_run r ON r.id = s.run_id"
        " WHERE {kept_steps} GROUP BY r.id HAVING COUNT(*) <> MAX(s.{index}) + 1",
    ),
    Invariant(
        7,
        "fences never go down",
        "step {1} of run {0} has fence {2}, which is not its turn",
        "SELECT s.run_id, s.{index}, s.fence FROM komand_step s JOIN komand_run r ON r.id = s.run_id"
        " WHERE s.fence > r.fence OR EXISTS (SELECT 1 FROM komand_step n WHERE n.run_id = s.run_id"
        " AND n.{index} > s.{index} AND n.fence < s.fence)",
    ),
    Invariant(
        7,
        "a timeline has no gap and ends at its head",
        "the timeline of session {0} has {1} events up to number {2}",
        "SELECT h.session_id, COUNT(e.id), h.seq FROM komand_timeline_head h LEFT JOIN komand_event e"
        " ON e.session_id = h.session_id GROUP BY h.session_id, h.seq"
        " HAVING COUNT(e.id) = 0 OR MAX(e.seq) <> h.seq OR COUNT(e.id) <> MAX(e.seq) - MIN(e.seq) + 1",
    ),
    Invariant(
        7,
        "times rise along a timeline",
        "event {1} of session {0} is not later than the one before it",
        "SELECT b.session_id, b.seq FROM komand_event a JOIN komand_event b ON b.session_id = a.session_id"
        " AND b.seq = a.seq + 1 WHERE b.ts <= a.ts",
    ),
    Invariant(
        8,
        "each message has its run",
        "turn {0} of session {1} has no run of its session and place",
        "SELECT t.id, t.session_id FROM komand_turn t LEFT JOIN komand_run r ON r.id = t.run_id"
        " AND r.conversation_id = t.session_id AND r.ordinal = t.ordinal WHERE r.id IS NULL"
        # What was said elsewhere, before the session began, was brought along and has a place without a run.
        " AND (t.run_id IS NOT NULL OR EXISTS (SELECT 1 FROM komand_run o"
        " WHERE o.conversation_id = t.session_id AND o.ordinal = t.ordinal))",
    ),
    Invariant(
        8,
        "a run answers the messages it counts",
        "run {0} should answer {1} messages and has {2}",
        "SELECT r.id, r.words, COUNT(t.id) FROM komand_run r LEFT JOIN komand_turn t ON t.run_id = r.id"
        " AND t.role = 'user' AND t.tool_call_ids IS NULL GROUP BY r.id, r.words HAVING COUNT(t.id) <> r.words",
    ),
    Invariant(
        8,
        "what came in has a run or a reason",
        "inbound message {0} has neither a run nor a reason",
        "SELECT id FROM komand_inbound_message WHERE run_id IS NULL AND reason = ''",
    ),
    Invariant(
        8,
        "what came in is the message that its run answers",
        "inbound message {0} is not a message of its run {1}",
        "SELECT m.id, m.run_id FROM komand_inbound_message m LEFT JOIN komand_turn t ON t.id = m.turn_id"
        " AND t.run_id = m.run_id AND t.session_id = m.session_id AND t.role = 'user'"
        " WHERE m.run_id IS NOT NULL AND t.id IS NULL",
    ),
    Invariant(
        8,
        "a message came in once",
        "turn {0} came in {1} times",
        "SELECT turn_id, COUNT(*) FROM komand_inbound_message WHERE turn_id IS NOT NULL"
        " GROUP BY turn_id HAVING COUNT(*) > 1",
    ),
    Invariant(
        9,
        "a run used what its steps used",
        "run {0} says {1} and {2} tokens, its steps say otherwise",
        "SELECT r.id, r.input_tokens, r.output_tokens FROM komand_run r LEFT JOIN komand_step s ON s.run_id = r.id"
        " WHERE {kept_steps} GROUP BY r.id, r.input_tokens, r.output_tokens"
        " HAVING r.input_tokens <> COALESCE(SUM(s.input_tokens), 0)"
        " OR r.output_tokens <> COALESCE(SUM(s.output_tokens), 0)",
    ),
    Invariant(
        10,
        "the audit log has what the timeline says",
        "session {0}: {2} facts lack their entry {1} in the audit log",
        "SELECT session_id, action, SUM(n) FROM (SELECT session_id, CASE type {cases} END action, 1 n"
        " FROM komand_event WHERE type IN ({types}) AND {kept_entries}"
        " UNION ALL SELECT session_id, action, -1 FROM komand_audit_log"
        " WHERE session_id IS NOT NULL AND action IN ({actions})) told GROUP BY session_id, action HAVING SUM(n) > 0",
    ),
    Invariant(
        10,
        "a beginning is told once",
        "run {0} has told its beginning {1} times",
        "SELECT r.id, COUNT(e.id) FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id"
        " AND e.type = 'run.started' WHERE {kept_events} GROUP BY r.id, r.started_at"
        " HAVING COUNT(e.id) <> CASE WHEN r.started_at IS NULL THEN 0 ELSE 1 END",
    ),
)


def find_violations() -> list[Violation]:
    """Everything that breaks an invariant at this moment, by number. Synchronous; reads whole tables."""
    names = _names()
    found = [
        Violation(invariant.number, invariant.finding.format(*row))
        for invariant in INVARIANTS
        for row in _rows(invariant.sql.format(**names))
    ]
    return sorted([*found, *_left_behind()], key=lambda violation: violation.number)


def _left_behind() -> Iterator[Violation]:
    """Invariant 2, for what a process holds: it lives."""
    alive = {process.id.hex for process in liveness.list_processes() if process.alive}
    for table, noun in _HELD.items():
        for subject, owner in _rows(f"SELECT id, owner FROM {table} WHERE owner IS NOT NULL"):  # noqa: S608 - constants
            if str(owner).replace("-", "") not in alive:
                yield Violation(2, f"{noun} {subject} is held by {owner}, which is not alive")


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _names() -> dict[str, str]:
    """What the queries leave open: the database's dialect and the events that are audited."""
    audited = [(event_type.name, event_type.audit) for event_type in event_types if event_type.audit]
    return {
        **_PARTS,
        # What retention may have taken is not missed.
        "kept_events": _younger("r.created_at", settings.KOMAND_TIMELINE_DAYS),
        "kept_steps": _younger("r.created_at", settings.KOMAND_STEP_DAYS),
        "kept_entries": _younger("ts", settings.KOMAND_AUDIT_DAYS, in_ms=True),
        "length": "jsonb_array_length" if connection.vendor == "postgresql" else "json_array_length",
        "attempts": str(conf.MAX_ATTEMPTS),
        "cases": " ".join(f"WHEN '{name}' THEN '{action}'" for name, action in audited),
        "types": ", ".join(f"'{name}'" for name, _ in audited),
        "actions": ", ".join(sorted({f"'{action}'" for _, action in audited})),
    }


def _younger(column: str, days: int, *, in_ms: bool = False) -> str:
    """The condition that a row is so young that nothing of it has been given up; days: 0 for ever."""
    if not days:
        return "1 = 1"
    edge = days_ago(days)
    return f"{column} > {int(edge.timestamp() * 1000)}" if in_ms else f"{column} > '{edge:%Y-%m-%d %H:%M:%S}'"
