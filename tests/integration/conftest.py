"""Fixtures of the integration tests: circuit breakers are reset; people of the admin, and runs in any state."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from agents_app import events as run_events
from agents_app.models import Agent, ModelProvider, Run, Step
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import nudges, valkey
from sessions_app.identity import rate_limits
from sessions_app.models import Session, Turn
from tools_app.models import ToolExecution

BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture(autouse=True)
def _reset_breakers() -> None:
    """Close the circuit breakers of Valkey, which a test with an outage leaves open for seconds."""
    for breaker in (rate_limits._breaker, nudges._breaker, valkey.breaker):
        breaker._open_until = float("-inf")


@pytest.fixture
def without_statistics(db: None) -> None:
    """Reset PostgreSQL's statistics, until the end of the test rolls back.

    They may be from a moment at which a table was empty.
    """
    if connection.vendor == "postgresql":
        tables = {connection.ops.quote_name(model._meta.db_table) for model in apps.get_models()}
        ours = sorted(table for table in tables if table.startswith('"komand_'))
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(ours)} CASCADE")


@pytest.fixture
def operator(db) -> User:
    return User.objects.create_superuser("operator", "operator@localhost", "secret")


@pytest.fixture
def pages(operator) -> Client:
    """Return a client that is logged in as an operator with all permissions."""
    ContentType.objects.get_for_models(*apps.get_models())  # looked up once per process: not what a page costs
    client = Client()
    client.force_login(operator, BACKEND)
    return client


@pytest.fixture
def staff(db) -> Callable[..., Client]:
    """Return a factory of clients for staff with only these permissions (`app.codename`)."""

    def log_in(*permissions: str, name: str = "staff") -> Client:
        user = User.objects.create_user(name, password="secret", is_staff=True)
        for permission in permissions:
            app, codename = permission.split(".")
            user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
        client = Client()
        client.force_login(user, BACKEND)
        return client

    return log_in


@pytest.fixture
def agent(db) -> Agent:
    provider = ModelProvider.objects.create(name="demo", kind="demo")
    wanted = {"agent_id": "default", "name": "Assistant", "provider": provider}
    return Agent.objects.create(**wanted, is_shared_with_everyone=True)


@pytest.fixture
def make_run(agent, operator) -> Callable[..., Run]:
    """Make a session with a run of two steps: the first calls `calls` tools, the second answers."""

    def make(status: str = "completed", *, calls: int = 1, text: str = "17 times 23?", **fields: Any) -> Run:
        now = timezone.now() - timedelta(seconds=10)
        number = Session.objects.count()
        session = Session.objects.create(
            key=f"WebChat:default:{operator.pk}:{number}",
            channel="WebChat",
            sender_id=str(operator.pk),
            owner=operator,
            agent=agent,
            title=text[:200],
            last_active_at=now,
            created_at=now,
            next_ordinal=1,
            message_count=1,
        )
        is_open = status in ("queued", "running", "waiting")
        run = Run.objects.create(
            conversation_id=session.pk,
            session_key=session.key,
            ordinal=0,
            agent=agent,
            status=status,
            actor=f"user:{operator.pk}",
            request_id="request-7",
            created_at=now,
            input_tokens=1234,
            output_tokens=56,
            started_at=None if status == "queued" else now + timedelta(seconds=1),
            ended_at=None if is_open else now + timedelta(seconds=9),
            fence=0 if status == "queued" else 1,
            **fields,
        )
        Turn.objects.create(session=session, run=run, ordinal=0, part=0, role="user", content=text, created_at=now)
        tool_calls_of_model = [
            {"id": f"call_{n}", "name": "calculator", "arguments": '{"expression": "17*23"}'} for n in range(calls)
        ]
        times = {"started_at": now + timedelta(seconds=1), "ended_at": now + timedelta(seconds=3)}
        Step.objects.create(
            run=run,
            index=0,
            fence=1,
            text="Let me see.",
            tool_calls=tool_calls_of_model,
            finish_reason="tool_calls",
            **times,
        )
        for index in range(calls):
            _execution(run, index, now)
        with transaction.atomic():
            audit.emit(
                [
                    NewEvent(
                        run_events.RUN_QUEUED,
                        session.pk,
                        {"ordinal": 0, "agent_id": "default"},
                        run_id=run.pk,
                        session_key=session.key,
                    )
                ]
            )
        return run

    return make


def _execution(run: Run, index: int, now: Any) -> ToolExecution:
    return ToolExecution.objects.create(
        run_id=run.pk,
        session_id=run.conversation_id,
        agent_id="default",
        actor=run.actor,
        step=0,
        call_index=index,
        call_id=f"call_{index}",
        tool="calculator",
        arguments={"expression": "17*23"},
        effect="read",
        risk="low",
        decision="allow",
        status="Completed",
        output='{"result": "391"}',
        timeout_seconds=10,
        on_done="x",
        on_done_queue="runs",
        created_at=now,
        started_at=now,
        completed_at=now + timedelta(seconds=2),
    )
