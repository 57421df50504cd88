"""Messages that take long to be stored, such as those with documents, hold up no others."""

import asyncio
import threading
from typing import Any

import pytest

from audit_app.kernel.database import in_db
from sessions_app.surfaces.base.intake_limit import may_have_documents, store_message
from tests.support.conditions import happens

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PDF = b'{"file_data": "data:application/pdf;base64,JVBERi0xLjQ="}'


@pytest.mark.parametrize(
    "message", [PDF, {"parts": [{"raw": "UEsDBBQAAAA"}]}, b'{"file_id": "file-1"}', b'"\\u004aVBER"']
)
def test_documents_are_found_in_messages(message: Any) -> None:
    assert may_have_documents(message)


@pytest.mark.parametrize("message", [b'{"text": "a file, \\u00fc and \\u003c"}', {"text": "data"}, "JVBERi", 7])
def test_other_messages_keep_to_the_pool(message: Any) -> None:
    assert not may_have_documents(message)


async def test_a_message_with_documents_holds_up_nobody() -> None:
    leave, entered = threading.Event(), threading.Semaphore(0)

    def store(_: bytes) -> str:
        entered.release()
        assert leave.wait(60)
        return threading.current_thread().name

    storing = [asyncio.ensure_future(store_message(store, PDF, finish_on_cancel=number == 0)) for number in range(3)]
    for _ in storing:
        await happens(lambda: entered.acquire(blocking=False))
    async with asyncio.timeout(20):
        assert await in_db(lambda: 7) == 7
        assert await store_message(lambda: 8) == 8
    storing[0].cancel()
    leave.set()
    assert [name[:14] for name in await asyncio.gather(*storing[1:])] == ["in_slow_thread"] * 2
    with pytest.raises(asyncio.CancelledError):
        await storing[0]
