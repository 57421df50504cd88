"""Fills a prepared installation with a month of traffic, agents and channel accounts.

`python -m benchmarks.growth_data.traffic --turns 1000000 --agents 1000 --accounts 100`

Runs are spread over the month and over sessions. Each has two turns, its steps (a third with a tool call), ten events
of the timeline and four entries of the audit log; a fifth came by a channel.
"""

import argparse
import os
from datetime import UTC, datetime, timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
django.setup()

# Only after Django is set up: these modules name models.
from django.contrib.auth.models import User  # noqa: E402

from agents_app.models import Agent, Run, Step  # noqa: E402
from audit_app.models import AuditEntry, Event, TimelineHead  # noqa: E402
from benchmarks.growth_data.bulk import Dialect, insert, without_indexes  # noqa: E402
from sessions_app.models import ChannelAccount, Delivery, InboundKey, InboundMessage, RefreshToken, Session, Turn  # noqa: E402
from tools_app.models import ToolExecution  # noqa: E402

EVENTS_A_RUN = 10
_RUNS_A_SESSION = 25
_DAYS = 30
_PEOPLE = 200
_WORDS = "Here is what is known about it: the first part is plain, the second needs some more words to be told. "
_TYPES = (
    "message.received",
    "run.queued",
    "run.started",
    "tool.requested",
    "tool.completed",
    "plan.updated",
    "warning.raised",
    "citations.added",
    "message.completed",
    "run.completed",
)
_ACTIONS = ("MessageReceived", "ToolExecuted", "MessageSent", "RunCompleted")


class Month:
    """SQL expressions for the `i`-th run: its time, its session, its ordinal."""

    def __init__(self, turns: int) -> None:
        self.runs = turns // 2
        self.sessions = max(1, self.runs // _RUNS_A_SESSION)
        self.sql = Dialect()
        self._begun = int((datetime.now(UTC) - timedelta(days=_DAYS)).timestamp() * 1000)
        self._apart = (_DAYS * 86_400_000 - 3_600_000) // self.runs
        # A step that shares no factor with the count takes every session once before any comes again.
        self._stride = next(step for step in (7919, 7907, 7901) if self.sessions % step)

    def ms(self, run: str, later: int = 0) -> str:
        return f"({self._begun + later} + ({run}) * {self._apart})"

    def run_id(self, run: str) -> str:
        return self.sql.uuid(self.ms(run), run)

    def session(self, run: str) -> str:
        return f"((({run}) * {self._stride}) % {self.sessions})"

    def session_id(self, run: str) -> str:
        return self.sql.uuid(str(self._begun), self.session(run))

    def ordinal(self, run: str) -> str:
        return f"(({run}) / {self.sessions})"

    def last_ms(self) -> str:
        """Return an expression: the approximate time of each session's last run."""
        return self.ms(f"{(_RUNS_A_SESSION - 1) * self.sessions} + n.i")


def fill(turns: int, agents: int, accounts: int) -> None:
    month = Month(turns)
    agent = Agent.objects.get(agent_id="default")
    people = [person.pk for person in User.objects.bulk_create(User(username=f"person-{n}") for n in range(_PEOPLE))]
    account = ChannelAccount.objects.create(channel="webhook", account_id="traffic", access="open")
    filled = (Session, Run, Turn, Step, ToolExecution, Event, AuditEntry, InboundMessage, Delivery)
    with without_indexes(filled):
        _sessions(month, agent.pk.hex, people[0])
        _runs(month, agent.pk.hex)
        _turns(month)
        _steps(month)
        _executions(month)
        _events(month)
        _audit(month)
        _arrivals(month, account)
        _deliveries(month, account)
        _logins(month, people[0])
    _configuration(agent, agents, accounts)


def _configuration(agent: Agent, agents: int, accounts: int) -> None:
    """Create so many agents like the given one, and channel accounts."""
    shared = {"provider": agent.provider, "description": _WORDS, "is_shared_with_everyone": True}
    numbers = (f"made-{number:04}" for number in range(agents))
    Agent.objects.bulk_create(Agent(agent_id=name, name=name, **shared) for name in numbers)
    names = (f"made-{number:04}" for number in range(accounts))
    config = {"callback_url": "https://example.com/answers"}
    ChannelAccount.objects.bulk_create(
        ChannelAccount(channel="webhook", account_id=name, agent=agent, config=config) for name in names
    )


def _sessions(month: Month, agent: str, first_person: int) -> None:
    sql = month.sql
    insert(
        Session,
        {
            "id": sql.uuid(str(month._begun), "n.i"),
            "key": "'WebChat:default:' || n.i",
            "channel": "'WebChat'",
            "sender_id": sql.text("n.i"),
            "owner": f"{first_person} + n.i % {_PEOPLE}",
            "agent": f"'{agent}'",
            "title": "'Session ' || n.i",
            "message_count": str(2 * _RUNS_A_SESSION),
            "next_ordinal": str(_RUNS_A_SESSION),
            "last_active_at": sql.time(month.last_ms()),
            "created_at": sql.time(str(month._begun)),
        },
        sql.series(month.sessions),
    )
    insert(
        TimelineHead,
        {
            "session_id": sql.uuid(str(month._begun), "n.i"),
            "seq": str(EVENTS_A_RUN * _RUNS_A_SESSION),
            "ts": month.last_ms(),
        },
        sql.series(month.sessions),
    )


def _runs(month: Month, agent: str) -> None:
    sql = month.sql
    insert(
        Run,
        {
            "id": month.run_id("n.i"),
            "conversation_id": month.session_id("n.i"),
            "ordinal": month.ordinal("n.i"),
            "session_key": f"'WebChat:default:' || {month.session('n.i')}",
            "agent": f"'{agent}'",
            "fence": "1",
            "status": "CASE WHEN n.i % 10 = 0 THEN 'failed' ELSE 'completed' END",
            "answer": f"'{_WORDS}' || n.i",
            "error_code": "CASE WHEN n.i % 10 = 0 THEN 'model_error' ELSE '' END",
            "actor": "'user:1'",
            "request_id": "'request-' || n.i",
            "end_stored": sql.true("1 = 1"),
            "created_at": sql.time(month.ms("n.i")),
            "started_at": sql.time(month.ms("n.i", 20)),
            "ended_at": sql.time(month.ms("n.i", 3000)),
        },
        sql.series(month.runs),
    )


def _turns(month: Month) -> None:
    sql, run = month.sql, "(n.i / 2)"
    insert(
        Turn,
        {
            "id": sql.uuid(f"{month.ms(run)} + n.i % 2 * 3000", "n.i"),
            "session": month.session_id(run),
            "run": month.run_id(run),
            "ordinal": month.ordinal(run),
            "part": "n.i % 2",
            "role": "CASE WHEN n.i % 2 = 0 THEN 'user' ELSE 'assistant' END",
            "content": f"'{_WORDS}' || n.i",
            "is_answer": sql.true("n.i % 2 = 1"),
            "created_at": sql.time(month.ms(run)),
        },
        sql.series(2 * month.runs),
    )


def _steps(month: Month) -> None:
    """Insert one step for each run, and another one with a tool call before it for every third."""
    sql = month.sql
    for index, every in ((0, 1), (1, 3)):
        run = f"(n.i * {every})"
        insert(
            Step,
            {
                "id": sql.uuid(month.ms(run, index * 1000), f"2 * {run} + {index}"),
                "run": month.run_id(run),
                "index": str(index),
                "fence": "1",
                "text": f"'{_WORDS}' || n.i",
                "finish_reason": "'stop'",
                "started_at": sql.time(month.ms(run)),
                "ended_at": sql.time(month.ms(run, 2000)),
            },
            sql.series(month.runs // every),
        )


def _executions(month: Month) -> None:
    sql, run = month.sql, "(n.i * 3)"
    insert(
        ToolExecution,
        {
            "id": sql.uuid(month.ms(run, 500), "n.i"),
            "run_id": month.run_id(run),
            "session_id": month.session_id(run),
            "agent_id": "'default'",
            "actor": "'user:1'",
            "step": "0",
            "call_index": "0",
            "call_id": "'call-' || n.i",
            "tool": "CASE WHEN n.i % 2 = 0 THEN 'echo' ELSE 'calculator' END",
            "effect": "'read'",
            "risk": "'low'",
            "decision": "'allowed'",
            "status": "'completed'",
            "output": f"'{_WORDS}'",
            "timeout_seconds": "30",
            "on_done": "''",
            "on_done_queue": "''",
            "created_at": sql.time(month.ms(run, 500)),
            "started_at": sql.time(month.ms(run, 520)),
            "completed_at": sql.time(month.ms(run, 600)),
        },
        sql.series(month.runs // 3),
    )


def _events(month: Month) -> None:
    sql, run, kind = month.sql, f"(n.i / {EVENTS_A_RUN})", f"(n.i % {EVENTS_A_RUN})"
    types = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(_TYPES))
    insert(
        Event,
        {
            "session_id": month.session_id(run),
            "seq": f"{month.ordinal(run)} * {EVENTS_A_RUN} + {kind} + 1",
            "ts": f"{month.ms(run)} + {kind} * 300",
            "type": f"CASE {kind} {types} END",
            "run_id": month.run_id(run),
            "actor": "'agent:default'",
            "payload": sql.json('\'{"text_length": 100, "usage": {"input_tokens": 100, "output_tokens": 30}}\''),
        },
        sql.series(EVENTS_A_RUN * month.runs),
    )


def _audit(month: Month) -> None:
    count = len(_ACTIONS)
    sql, run, kind = month.sql, f"(n.i / {count})", f"(n.i % {count})"
    actions = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(_ACTIONS))
    insert(
        AuditEntry,
        {
            "id": sql.uuid(f"{month.ms(run)} + {kind} * 700", "n.i"),
            "action": f"CASE {kind} {actions} END",
            "actor": "'agent:default'",
            "agent_id": "'default'",
            "session_id": month.session_id(run),
            "session_key": f"'WebChat:default:' || {month.session(run)}",
            "request_id": f"'request-' || {run}",
            "at": sql.time(f"{month.ms(run)} + {kind} * 700"),
            "details": sql.json('\'{"channel": "WebChat", "state": "complete", "text_length": 100}\''),
        },
        sql.series(count * month.runs),
    )


def _arrivals(month: Month, account: ChannelAccount) -> None:
    sql, run = month.sql, "(n.i * 5)"
    count = month.runs // 5
    message = sql.uuid(month.ms(run), "n.i")
    insert(
        InboundMessage,
        {
            "id": message,
            "account": f"'{account.pk.hex}'",
            "message_id": "'m-' || n.i",
            "sender_id": sql.text(month.session(run)),
            "chat_id": sql.text(month.session(run)),
            "text": f"'{_WORDS}'",
            "raw": f"CASE WHEN n.i > {count * 23 // 30} THEN '{_WORDS}' END",
            "session": month.session_id(run),
            "run": month.run_id(run),
            "turn": sql.uuid(month.ms(run), f"2 * {run}"),
            "sent_at": sql.time(month.ms(run)),
            "received_at": sql.time(month.ms(run)),
        },
        sql.series(count),
    )
    key = {"id": message, "account": f"'{account.pk.hex}'", "key": "'m-' || n.i", "message": message}
    insert(InboundKey, key, sql.series(count))


def _deliveries(month: Month, account: ChannelAccount) -> None:
    sql, run = month.sql, "(n.i * 5)"
    insert(
        Delivery,
        {
            "dedupe_key": "'run-' || n.i",
            "account": f"'{account.pk.hex}'",
            "session": month.session_id(run),
            "run": month.run_id(run),
            "lane": f"'traffic:' || {month.session(run)}",
            "text": f"'{_WORDS}'",
            "body": f"'{_WORDS}'",
            "status": "CASE WHEN n.i % 10 = 0 THEN 'failed' ELSE 'sent' END",
            "target": sql.json('\'{"chat": "1"}\''),
            "ready_at": sql.time(month.ms(run, 3000)),
            "expires_at": sql.time(month.ms(run, 90_000)),
            "created_at": sql.time(month.ms(run, 3000)),
            "sent_at": sql.time(month.ms(run, 3200)),
        },
        sql.series(month.runs // 5),
    )


def _logins(month: Month, first_person: int) -> None:
    sql = month.sql
    when = sql.time(month.ms("n.i * 50"))
    insert(
        RefreshToken,
        {
            "id": sql.uuid(month.ms("n.i * 50"), "n.i"),
            "family": sql.uuid(month.ms("n.i * 50"), "n.i"),
            "user": f"{first_person} + n.i % {_PEOPLE}",
            "digest": "'digest-' || n.i",
            "created_at": when,
            "expires_at": when,
        },
        sql.series(max(1, month.runs // 50)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growth_data.traffic", description=__doc__)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--accounts", type=int, required=True)
    options = parser.parse_args()
    fill(options.turns, options.agents, options.accounts)


if __name__ == "__main__":
    main()
