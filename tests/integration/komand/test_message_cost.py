"""The cost of a plain message and of its run, in statements. Those of transactions and savepoints do not count."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.models import Agent, ModelPrice, ModelProvider, Run
from agents_app.runs import lease, writes
from agents_app.runs.claims import Claim
from agents_app.types import ModelResponse, Usage
from audit_app.kernel import nudges
from sessions_app.models import Session, Turn
from sessions_app.services import NewMessage, open_session, receive
from tests.support.built_statements import built_statements
from tools_app.models import McpServer, McpTool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

MESSAGE, CLAIM, END = 9, 5, 8
_OF_TRANSACTIONS = ("BEGIN", "SAVEPOINT", "RELEASE", "COMMIT")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose first message is answered, so that all statements are compiled."""
    monkeypatch.setattr(nudges, "send", lambda *_, **__: None)
    provider = ModelProvider.objects.create(name="scripted", kind="scripted")
    wanted = {"name": "Assistant", "provider": provider, "model_id": "m", "is_shared_with_everyone": True}
    Agent.objects.update_or_create(agent_id="default", defaults=wanted)
    opened = open_session(owner=User.objects.create_user("alice"), title="A session")
    answer(claim(send(opened)))
    return read(opened)


def read(session: Session) -> Session:
    """Return the session as an access gate reads it."""
    return Session.objects.select_related("agent", "owner").get(pk=session.pk)


def send(session: Session) -> UUID:
    return receive(
        NewMessage("WebChat", "default", str(session.owner_id), "", "hello"), owner=session.owner, session=session
    ).run_id


def claim(run_id: UUID) -> Claim:
    claimed = lease.claim(uuid4(), run_id)
    assert claimed is not None
    return claimed


def answer(claimed: Claim) -> None:
    spent, response = writes.Spent(1.0, timezone.now()), ModelResponse("Hi!", usage=Usage(7, 3))
    assert writes.record_and_decide(claimed, claimed.snapshot, 0, response, spent) is None


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the statements of the block, of which none may be built anew."""
    statements: list[str] = []
    with built_statements() as built, CaptureQueriesContext(connection) as captured:
        yield statements
    assert built == []
    statements += [query["sql"] for query in captured if not query["sql"].startswith(_OF_TRANSACTIONS)]


def test_a_message_and_its_run_take_few_statements_and_build_none(session: Session) -> None:
    with counted() as of_message:
        run_id = send(session)
    with counted() as of_claim:
        claimed = claim(run_id)
    with counted() as of_end:
        answer(claimed)
    assert len(of_message) <= MESSAGE, of_message
    assert len(of_claim) <= CLAIM, of_claim
    assert len(of_end) <= END, of_end
    run = Run.objects.get(pk=run_id)
    assert (run.status, run.answer, run.input_tokens, run.output_tokens) == ("completed", "Hi!", 7, 3)
    assert run.end_stored and run.owner is None and run.steps.count() == 1
    assert list(Turn.objects.filter(run=run).order_by("part").values_list("role", "part")) == [
        ("user", 0),
        ("assistant", 1),
    ]


def test_what_another_process_configures_is_in_the_next_claim(session: Session) -> None:
    assert claim(send(session)).prices.models == ()
    provider = ModelProvider.objects.get(name="scripted")
    ModelPrice.objects.create(provider=provider, model="m", input_price=1.0, output_price=2.0)
    server = McpServer.objects.create(name="srv", transport="stdio", command="true")
    McpTool.objects.create(server=server, name="act", digest="d", approved_digest="d", effect="once", risk="low")
    Run.objects.update(status="completed", owner=None, ended_at=timezone.now())
    claimed = claim(send(read(session)))
    assert [name for name, _ in claimed.prices.models] == ["m"]
    assert "mcp__srv__act" in [spec.name for spec in claimed.tools.all]
    McpServer.objects.update(is_enabled=False)
    Run.objects.update(status="completed", owner=None, ended_at=timezone.now())
    assert "mcp__srv__act" not in [spec.name for spec in claim(send(read(session))).tools.all]


def test_a_message_that_came_during_the_answer_is_answered_too(session: Session) -> None:
    Agent.objects.update(busy_policy="steer")
    run_id = send(read(session))
    claimed = claim(run_id)
    assert send(read(session)) == run_id
    spent = writes.Spent(1.0, timezone.now())
    following = writes.record_and_decide(claimed, claimed.snapshot, 0, ModelResponse("Hi!"), spent)
    assert following is not None and len(following.user_turns) == 2
    assert Run.objects.get(pk=run_id).status == "running"
