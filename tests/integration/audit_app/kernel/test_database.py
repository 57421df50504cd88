"""The bridge from async code to the ORM."""

import asyncio
import threading
from contextlib import suppress

import pytest
from django.db import InternalError, ProgrammingError, connection, transaction

from audit_app.kernel import context
from audit_app.kernel.database import close_pool, in_db, is_away
from tests.support.conditions import happens

pytestmark = pytest.mark.django_db(transaction=True)


async def test_it_runs_on_a_thread_of_the_pool_and_returns():
    assert await in_db(lambda a, *, b: (threading.current_thread().name[:5], a, b), 1, b=2) == ("in_db", 1, 2)


async def test_it_raises_what_the_function_raises():
    def fail() -> None:
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        await in_db(fail)


async def test_context_variables_are_copied():
    with context.bind(request_id="r-7"):
        assert await in_db(context.request_id.get) == "r-7"


@pytest.mark.sqlite_only
async def test_a_thread_keeps_its_connection():
    await in_db(lambda: connection.ensure_connection())
    assert await in_db(lambda: connection.connection is not None)


async def test_calls_work_after_the_pool_was_closed():
    await in_db(lambda: connection.ensure_connection())
    await asyncio.to_thread(close_pool)
    await asyncio.to_thread(close_pool)
    assert await in_db(lambda: 7) == 7


def test_several_event_loops_share_the_pool():
    async def name() -> str:
        return await in_db(lambda: threading.current_thread().name)

    assert asyncio.run(name())[:5] == asyncio.run(name())[:5] == "in_db"


async def test_a_function_runs_to_its_end_although_its_caller_was_cancelled():
    entered, leave, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        leave.wait(30)
        done.set()

    task = asyncio.ensure_future(in_db(work))
    await happens(entered.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    leave.set()
    await in_db(lambda: None)
    assert await asyncio.to_thread(done.wait, 30)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="needs PostgreSQL")
def test_a_read_only_server_is_away_and_a_broken_transaction_is_not():
    with pytest.raises(InternalError) as refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute("CREATE TABLE anything (id int)")
    assert is_away(refused.value)
    with pytest.raises(InternalError) as refused, transaction.atomic(), connection.cursor() as cursor:
        with suppress(ProgrammingError):
            cursor.execute("SELECT nothing")
        cursor.execute("SELECT 1")
    assert not is_away(refused.value)
