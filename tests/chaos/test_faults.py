"""Single faults, each caused on purpose in one process: lost claims, late and double results, a full disk."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from agents_app.errors import Fenced
from agents_app.models import Run, Step
from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import lease
from agents_app.runs import writes as writes_module
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import CANCELLED
from agents_app.runs.writes import Spent
from agents_app.types import ModelResponse
from audit_app import stream
from audit_app.kernel import database, liveness
from audit_app.kernel import valkey as valkey_module
from audit_app.models import Event
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Session, Turn
from sessions_app.services import receive
from sessions_app.surfaces.base.http_errors import http_error_of
from tests.chaos.crash_gateway import Gateway
from tests.chaos.scenario_player import Play
from tests.chaos.scenarios import SCENARIOS, person_of
from tools_app import services as tools
from tools_app.executions import runner
from tools_app.executions.runner import Outcome
from tools_app.models import ToolExecution
from tools_app.registry import tools as registry
from tools_app.types import ExecutionStatus, without_receipt

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gateway(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    gateway = Gateway(monkeypatch)
    yield gateway
    gateway.close()


@pytest.fixture
def play(gateway: Gateway, valkey: object) -> Iterator[Play]:
    """Two tool rounds, an approval and an answer."""
    play = Play(SCENARIOS[0], gateway, valkey)
    with registry.override(*play.tools):
        yield play


@pytest.fixture
def zombie(play: Play, gateway: Gateway) -> Claim:
    """A claim whose process was declared dead; another process ended the run."""
    play.begin()
    owner = uuid4()
    claim = lease.claim(owner)
    assert claim is not None
    gateway.broker.clear()
    gateway.dead.add(owner)
    play.settle(claim.run.conversation_id)
    return claim


def rows() -> list[Any]:
    """Return all rows that a process with a lost claim could change."""
    tables = (Run, Step, Turn, ToolExecution, Event)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_a_process_with_a_lost_claim_writes_nothing(zombie: Claim) -> None:
    before, spent = rows(), Spent(1.0, zombie.run.created_at)
    writes = [
        lambda: writes_module.record_and_decide(zombie, zombie.snapshot, 0, ModelResponse("I live!"), spent),
        lambda: writes_module.end_early(zombie, CANCELLED, partial="I live!", spent=spent),
        lambda: writes_module.decide_and_apply(zombie, replace(zombie.snapshot, cancel_requested=True)),
        lambda: writes_module.park_for_retry(
            zombie, 1.0, ProviderError("x", code="model_error"), partial="", spent=spent
        ),
    ]
    for write in writes:
        with pytest.raises(Fenced):
            write()
    assert not lease.release(zombie.run, zombie.owner, active_seconds=1.0)
    assert not lease.recover_crashed(replace_owner(zombie))
    assert rows() == before
    assert find_violations() == []


def replace_owner(claim: Claim) -> Run:
    """Return the row as a second reaper read it before the first one freed it."""
    claim.run.owner = claim.owner
    return claim.run


def test_a_process_with_a_lost_claim_adds_nothing_to_the_live_stream(zombie: Claim, valkey: Any) -> None:
    key = stream.run_key(zombie.run.id)
    before = valkey.xrange(key)
    with pytest.raises(Exception, match="equal or smaller"):
        valkey_module.sync_client().xadd(key, {"e": "{}"}, id=f"{zombie.fence}-99")
    assert valkey.xrange(key) == before


@pytest.fixture
def begun(play: Play, gateway: Gateway) -> UUID:
    """The session of a run whose first two calls, a read and a keyed one, are planned and nudged."""
    session_id = play.begin()
    gateway.deliver()
    return session_id


def hold(gateway: Gateway, tool: str) -> ToolExecution:
    """Start the call in a process that then stops. Return its row as that process has it."""
    row = ToolExecution.objects.get(tool=tool, status="Pending")
    with gateway.inside("tools") as process:
        claimed = runner.claim(row.id, liveness.start("tools"))
    process.alive = False
    assert claimed is not None
    return claimed


@pytest.mark.parametrize(
    ("tool", "status", "attempts", "content"),
    [
        ("peek", "Completed", 2, '{"done": "peek"}'),
        ("file", "Completed", 2, '{"done": "file"}'),
        ("send", "Unknown", 1, "[Unknown] The process that ran this call died, so its outcome is unknown: it may have"),
    ],
    ids=["read", "keyed", "once"],
)
def test_a_call_whose_process_dies_is_repeated_or_marked_unknown(
    begun: UUID, play: Play, gateway: Gateway, tool: str, status: str, attempts: int, content: str
) -> None:
    while not ToolExecution.objects.filter(tool=tool, status="Pending", renudge_at__isnull=False).exists():
        play.advance(begun)
    hung = hold(gateway, tool)
    gateway.dead.add(hung.owner)
    play.settle(begun)
    hung.refresh_from_db()
    assert (hung.status, hung.attempts) == (status, attempts)
    contents = {message.tool_call_id: message.content for message in play.script.requests[-1].messages}
    assert content in contents[hung.call_id]
    assert len(play.ledger.keys(tool)) == (0 if status == "Unknown" else 1)
    assert Run.objects.get(conversation_id=begun).status == "completed" and find_violations() == []


def test_of_two_results_for_one_call_the_first_counts(begun: UUID, play: Play, gateway: Gateway) -> None:
    hung = hold(gateway, "peek")
    gateway.dead.add(hung.owner)
    play.settle(begun)
    before = rows()
    assert ToolExecution.objects.get(pk=hung.pk).attempts == 2
    runner.record(hung, Outcome(ExecutionStatus.COMPLETED, output='"too late"'))
    assert rows() == before
    assert find_violations() == []


def test_a_given_up_attempt_cannot_end_the_one_that_replaced_it(begun: UUID, play: Play, gateway: Gateway) -> None:
    first = hold(gateway, "peek")
    gateway.dead.add(first.owner)
    gateway.sweep()
    second = hold(gateway, "peek")
    runner.record(first, Outcome(ExecutionStatus.COMPLETED, output='"too late"'))
    assert ToolExecution.objects.get(pk=first.pk).status == "Running"
    runner.record(second, Outcome(ExecutionStatus.COMPLETED, output='"alive"'))
    play.settle(begun)
    assert ToolExecution.objects.get(pk=first.pk).output == '"alive"'
    assert without_receipt(Turn.objects.get(tool_call_id="call_1").content) == '"alive"'


def test_a_result_after_the_time_limit_is_dropped_and_the_model_sees_the_limit(
    begun: UUID, play: Play, gateway: Gateway
) -> None:
    slow = hold(gateway, "file")
    ToolExecution.objects.filter(pk=slow.pk).update(timeout_seconds=0, started_at="2020-01-01T00:00:00Z")
    gateway.sweep()
    runner.record(slow, Outcome(ExecutionStatus.COMPLETED, output='"too late"'))
    play.settle(begun)
    assert ToolExecution.objects.get(pk=slow.pk).status == "TimedOut"
    assert Turn.objects.get(tool_call_id="call_2").content.startswith("[TimedOut]")
    assert find_violations() == []


def test_a_result_after_a_cancelled_call_is_dropped_and_the_run_goes_on(
    begun: UUID, play: Play, gateway: Gateway
) -> None:
    slow = hold(gateway, "peek")
    assert tools.cancel_execution(slow.id)
    runner.record(slow, Outcome(ExecutionStatus.COMPLETED, output='"too late"'))
    play.settle(begun)
    content = without_receipt(Turn.objects.get(tool_call_id="call_1").content)
    assert content == "[Cancelled] A user cancelled this call."
    assert Run.objects.get(conversation_id=begun).status == "completed"
    assert find_violations() == []


@contextmanager
def full_disk() -> Iterator[None]:
    """Let SQLite add no page, with no free page left."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")  # what earlier tests deleted left free pages
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        usual = cursor.execute("PRAGMA max_page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA max_page_count = {usual}")


@contextmanager
def read_only_file() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            yield
        finally:
            cursor.execute("PRAGMA query_only = OFF")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("trouble", "code"), [(full_disk, "storage_full"), (read_only_file, "storage_read_only")], ids=["full", "read-only"]
)
def test_a_full_or_read_only_disk_is_a_503_and_stores_nothing_partly(
    play: Play, gateway: Gateway, trouble: Any, code: str
) -> None:
    play.run()
    before = (Session.objects.count(), Turn.objects.count(), Run.objects.count())
    message = replace(gateway.inbound, thread_id="later", text="x" * 10_000)
    with trouble(), pytest.raises(OperationalError) as refused:
        receive(message, owner=person_of("alice"))
    failure = http_error_of(refused.value)
    assert (failure.status, failure.code) == (503, code)
    assert "operator" in failure.message
    assert (Session.objects.count(), Turn.objects.count(), Run.objects.count()) == before
    assert find_violations() == []
    play.run()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("pragma", ["max_page_count", "query_only"], ids=["full", "read-only"])
def test_a_disk_that_is_full_during_a_model_call_costs_no_answer(
    play: Play, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, settings: Any, pragma: str
) -> None:
    """The answer is kept in memory until there is room."""
    database = connection.connection  # past Django, which takes the engine's loop for a reason to refuse
    usual = database.execute(f"PRAGMA {pragma}").fetchone()[0]

    def trouble() -> None:
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA {pragma} = {1 if pragma == 'query_only' else pages}")

    spare = database.execute("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
    length = 200_000 + spare.fetchone()[0]  # more than fits into what was freed before
    settings.KOMAND_MAX_ANSWER_CHARACTERS = 2 * length
    answer = "".join(f"{number:08x}" for number in range(length // 8))
    relief = partial(database.execute, f"PRAGMA {pragma} = {usual}")
    see_an_answer_through(play, gateway, monkeypatch, answer, trouble, relief)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="needs PostgreSQL")
def test_a_server_that_is_read_only_during_a_model_call_costs_no_answer(
    play: Play, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server is during a failover."""
    is_read_only = "SET default_transaction_read_only = {}".format
    trouble, relief = (partial(connection.connection.execute, is_read_only(value)) for value in ("on", "off"))
    see_an_answer_through(play, gateway, monkeypatch, "It is done.", trouble, relief)


def see_an_answer_through(
    play: Play,
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    trouble: Callable[[], object],
    relief: Callable[[], object],
) -> None:
    """Check that the answer is stored when the fault lasts from the model call to the third pause."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            relief()

    monkeypatch.setattr(database, "asyncio", AsyncioWith(pause))
    session_id = play.begin()
    play.script.replies = (Reply((answer,)),)
    monkeypatch.setattr(play.script, "take", lambda request: (trouble(), play.script.replies[0])[1])
    gateway.deliver()
    assert pauses == [0.25, 0.5, 1.0]
    assert Turn.objects.get(session_id=session_id, is_answer=True).content == answer
    assert find_violations() == []


class AsyncioWith:
    """asyncio with another sleep."""

    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_process_whose_clock_is_an_hour_off_changes_only_timestamps(
    play: Play, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Waits and expiries use the clock of the database, which all processes share."""
    usual = play.run()
    calls = len(play.script.requests)
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(hours=hours))
    play.check(play.run(), usual, calls, 0)
