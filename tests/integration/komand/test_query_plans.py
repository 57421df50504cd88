"""No repeated query reads a whole table or index, so that its cost does not grow over years."""

import math
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.costs import tree_budget
from agents_app.models import Agent, ModelProvider, Run
from agents_app.runs import lease, turns
from agents_app.runs.reaper import Reaper
from agents_app.types import Message
from audit_app import retention, timeline
from audit_app.kernel import nudges
from audit_app.kernel.ids import new_id
from audit_app.models import AuditEntry
from sessions_app import selectors as sessions
from sessions_app.channels.outbound import transitions
from sessions_app.conversation import imported_texts
from sessions_app.conversation.history import StoredConversations
from sessions_app.conversation.open_requests import list_activity
from sessions_app.models import Delivery, Session, Turn
from sessions_app.schedules.starter import Starter
from sessions_app.services import NewMessage, open_session, receive
from tests.support.query_plans import caught, whole_reads
from tools_app import selectors as tools
from tools_app.models import ToolExecution
from tools_app.storage import memories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("without_statistics")]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, valkey: object) -> Session:
    """A session with a message that waits for its run."""
    monkeypatch.setattr(nudges, "send", lambda *_, **__: None)
    provider = ModelProvider.objects.create(name="scripted", kind="scripted")
    wanted = {"name": "Assistant", "provider": provider, "is_shared_with_everyone": True}
    Agent.objects.update_or_create(agent_id="default", defaults=wanted)
    owner = User.objects.create_user("alice")
    opened = open_session(owner=owner, title="A session")
    receive(NewMessage("WebChat", "default", str(owner.pk), "", "hello"), owner=owner, session=opened)
    return opened


POLLERS: dict[str, Callable[[Session], object]] = {
    "the reapers of every second": lambda session: Reaper().sweep(),  # what they look for rarely is not due
    "retention": lambda session: [rule.prune(retention.BATCH) for rule in retention.list_rules()],
    "the oldest claimable run": lambda session: lease.claim(uuid4()),
    "the next run of a user": lambda session: lease.claim(uuid4(), actor=agents.list_open_runs(session.id)[0].actor),
    "the next user's run": lambda session: lease.claim(uuid4(), after="user:0"),
    "runs of a user that wait for a place": lambda session: turns.show_waits("user:1"),
    "the run of a nudge": lambda session: lease.claim(uuid4(), agents.list_open_runs(session.id)[0].id),
    "runs of this worker": lambda session: lease.list_held(uuid4()),
    "the budget of a workstream": lambda session: tree_budget.Tree(uuid4()),
    "the return of tokens to a budget": lambda session: tree_budget.give_back(
        Run(root_id=uuid4(), reserved_tokens=1), ("", "")
    ),
    "due schedules": lambda session: Starter().start_part(),
    "due deliveries": lambda session: transitions.list_due(50),
    "due deliveries while chats wait": lambda session: transitions.list_due(50, (), [(session.pk, "501")]),
    "a received message": lambda session: receive(
        NewMessage("WebChat", "default", str(session.owner_id), "", "again"), owner=session.owner, session=session
    ),
    "heads of the followed timelines": lambda session: timeline.list_heads([session.id, uuid4()]),
    "new events of the followed timelines": lambda session: timeline.list_news({session.id: 0, uuid4(): 3}),
    "a viewer that resumes": lambda session: [
        timeline.find_last(session.id, "run.started", until=9),
        timeline.list_events_of_run(uuid4(), until=9),
        timeline.list_events(session.id, after=1),
        timeline.has_ended(uuid4()),
    ],
    "the sidebar": lambda session: [
        sessions.list_sessions(session.owner),
        agents.list_busy([session.id]),
        list_activity([session.id]),
        sessions.count_sessions(session.owner),
    ],
    "a session's page": lambda session: [
        sessions.list_turns(session),
        sessions.list_turns(session, before=(7, 0)),
        agents.list_open_runs(session.id),
        list(Turn.objects.filter(session=session, run_id=uuid4()).order_by("ordinal", "part")),
        tools.list_executions_of([new_id()]),
    ],
    "failed runs": lambda session: list(Run.objects.filter(Q(status="failed") | Q(status="timed_out"))[:50]),
    "failed calls": lambda session: list(ToolExecution.objects.filter(status="Failed")[:50]),
    "expired deliveries": lambda session: list(Delivery.objects.filter(status="expired")[:50]),
    "entries of a request": lambda session: list(AuditEntry.objects.exclude(request_id="").filter(request_id="r-1")),
    "the history of a run": lambda session: StoredConversations().history(session.id, 9, longest=1000),
    "answers that a client sends back": lambda session: imported_texts.set_origins(
        session.owner, [Message("assistant", "Hi.")], [Turn(session=session, role="assistant", content="Hi.")]
    ),
}


@pytest.mark.parametrize("name", POLLERS)
def test_it_reads_by_an_index(name: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories._indexer, "_next", math.inf)  # looks at all memories, each five minutes
    with caught() as statements:
        POLLERS[name](session)
    assert statements
    assert whole_reads(statements) == []


def test_a_whole_read_would_be_seen(session: Session) -> None:
    with caught() as statements:
        list(Turn.objects.filter(content="hello"))
        list(Turn.objects.filter(created_at__lt=timezone.now()).order_by("id"))
    assert len(whole_reads(statements)) == 2
