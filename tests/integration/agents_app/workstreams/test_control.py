"""Tools that list and await workstreams: numbers of queries, and whose result ends a wait."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import child_messages, children
from agents_app.runs.children import NewChild
from agents_app.types import WaitingOn
from agents_app.types.child_runs import ChildSpec
from agents_app.workstreams.control import ListWorkstreams, WaitWorkstreams
from tests.support.engine import EngineRig
from tools_app.types import ToolContext

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def parent(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Provide a run with workstreams that execute tools, without a worker."""
    rig = EngineRig(monkeypatch)
    rig.agent(Reply(), tool_profile="teams")
    run = Run.objects.get(pk=rig.send().run_id)
    for name, child_id in zip(NAMES, sorted(uuid4() for _ in NAMES), strict=True):
        children.start_child(NewChild(child_id, run.pk, name, ChildSpec(name, "Work.")))
    Run.objects.filter(parent=run).update(status="waiting", waiting_on=WaitingOn.TOOLS.value)
    yield run
    rig.stop()


def call(tool: Any, parent: Run, **arguments: Any) -> tuple[Any, int]:
    """Return the result of a call and the number of queries that read runs or executions."""
    context = ToolContext(uuid4(), parent.pk, parent.conversation_id, "default", "user:1", "key", 30)
    with CaptureQueriesContext(connection) as queries:
        result = tool.act(arguments, context)
    return result, sum("komand_" in query["sql"] for query in queries.captured_queries)


def test_workstreams_are_listed_with_one_query_for_all_their_tools(parent: Run) -> None:
    result, queries = call(ListWorkstreams(), parent)
    assert [one["id"] for one in result["workstreams"]] == NAMES and queries == 2


def test_a_wait_for_several_workstreams_costs_one_query(parent: Run) -> None:
    assert call(WaitWorkstreams(), parent, workstreams=["c", "a", "b"]) == ({"workstreams": ["c", "a", "b"]}, 1)
    assert call(WaitWorkstreams(), parent) == ({"workstreams": NAMES}, 1)


def test_a_report_names_its_workstream(parent: Run) -> None:
    child = Run.objects.get(parent=parent, workstream="b")
    children.terminate_child(parent.pk, child.pk)
    Run.objects.filter(pk=child.pk).update(status="completed", ended_at=child.created_at, end_stored=False)
    child_messages.collect(parent.pk)
    parent.refresh_from_db()
    assert [turn.about for turn in child_messages.user_turns_of(parent) if turn.is_result] == [(str(child.pk), "b")]
