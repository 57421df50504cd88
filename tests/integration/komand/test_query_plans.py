"""Nothing that is asked again and again reads a table from end to end, so that all of it costs the same after years."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import Agent, ModelProvider, Run
from agents_app.runs import lease
from agents_app.runs.reaper import Reaper
from audit_app import retention, timeline
from audit_app.kernel import nudges
from audit_app.kernel.ids import new_id
from audit_app.models import AuditEntry
from sessions_app import selectors as sessions
from sessions_app.channels.outbound import transitions
from sessions_app.conversation.history import StoredConversations
from sessions_app.models import Delivery, Session, Turn
from sessions_app.services import NewMessage, open_session, receive
from tests.support.query_plans import caught, whole_reads
from tools_app import selectors as tools
from tools_app.models import ToolExecution

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _never_counted(db: None) -> None:
    """PostgreSQL chooses by the rows it last counted, and counts when it has time, say while a table is empty. After
    this, which the end of the test takes back, it knows as little of our tables as of new ones."""
    if connection.vendor == "postgresql":
        tables = {connection.ops.quote_name(model._meta.db_table) for model in apps.get_models()}
        ours = sorted(table for table in tables if table.startswith('"komand_'))
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(ours)}")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, valkey: object) -> Session:
    """One with a message that waits for its run."""
    monkeypatch.setattr(nudges, "send", lambda *_, **__: None)
    provider = ModelProvider.objects.create(name="scripted", kind="scripted")
    Agent.objects.update_or_create(agent_id="default", defaults={"name": "Assistant", "provider": provider})
    owner = User.objects.create_user("alice")
    opened = open_session(owner=owner, title="A session")
    receive(NewMessage("WebChat", "default", str(owner.pk), "", "hello"), owner=owner, session=opened)
    return opened


POLLERS: dict[str, Callable[[Session], object]] = {
    "the reapers of every second": lambda session: Reaper().sweep(),
    "what retention looks for": lambda session: [rule.prune(5) for rule in retention.list_rules()],
    "the oldest claimable run": lambda session: lease.claim(uuid4()),
    "the run of a bell": lambda session: lease.claim(uuid4(), agents.list_open_runs(session.id)[0].id),
    "what this worker holds": lambda session: lease.list_held(uuid4()),
    "what is to be sent": lambda session: transitions.list_due(50),
    "what is to be sent while chats wait": lambda session: transitions.list_due(50, (), [(session.pk, "501")]),
    "a message comes in": lambda session: receive(
        NewMessage("WebChat", "default", str(session.owner_id), "", "again"), owner=session.owner, session=session
    ),
    "heads of the watched timelines": lambda session: timeline.list_heads([session.id, uuid4()]),
    "news of the watched timelines": lambda session: timeline.list_news({session.id: 0, uuid4(): 3}),
    "where a viewer resumes": lambda session: [
        timeline.find_last(session.id, "run.started", until=9),
        timeline.list_events_of_run(uuid4(), until=9),
        timeline.list_events(session.id, after=1),
        timeline.has_ended(uuid4()),
    ],
    "the sidebar": lambda session: [
        sessions.list_sessions(session.owner),
        agents.list_busy([session.id]),
        sessions.count_sessions(session.owner),
    ],
    "a session's page": lambda session: [
        sessions.list_turns(session),
        sessions.list_turns(session, before=(7, 0)),
        agents.list_open_runs(session.id),
        list(Turn.objects.filter(session=session, run_id=uuid4()).order_by("ordinal", "part")),
        tools.list_executions_of([new_id()]),
    ],
    "runs that failed": lambda session: list(Run.objects.filter(Q(status="failed") | Q(status="timed_out"))[:50]),
    "calls that failed": lambda session: list(ToolExecution.objects.filter(status="Failed")[:50]),
    "what was not delivered": lambda session: list(Delivery.objects.filter(status="expired")[:50]),
    "what a request did": lambda session: list(AuditEntry.objects.exclude(request_id="").filter(request_id="r-1")),
    "the history of a run": lambda session: StoredConversations().history(agents.list_open_runs(session.id)[0]),
}


@pytest.mark.parametrize("name", POLLERS)
def test_it_reads_by_an_index(name: str, session: Session) -> None:
    with caught() as statements:
        POLLERS[name](session)
    assert statements
    assert whole_reads(statements) == []


def test_a_whole_read_would_be_seen(session: Session) -> None:
    with caught() as statements:
        list(Turn.objects.filter(content="hello"))
        list(Turn.objects.filter(created_at__lt=timezone.now()).order_by("id"))
    assert len(whole_reads(statements)) == 2
