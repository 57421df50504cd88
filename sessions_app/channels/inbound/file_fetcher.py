"""The fetcher of attached files, on an engine's loop: a few at a time, each with retries until its time is over.

It holds no state that is not in the database. A file that a dead process was fetching is fetched again.
"""

import asyncio
import logging

from django.utils import timezone

from audit_app.kernel import liveness
from audit_app.kernel.database import in_db, retry_until_stored
from audit_app.kernel.errors import AppError
from sessions_app.attachments import records, storage
from sessions_app.attachments.model_text import Content
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.nudges import Poller
from sessions_app.models import Attachment
from sessions_app.platforms.base import FetchError

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 4
_PAUSES = (0.5, 2.0)


async def run() -> None:
    """Fetch files until cancelled. Runs on the engine's loop."""
    await Fetcher().run()


class Fetcher:
    """The fetches of one process. All methods belong to its event loop."""

    def __init__(self) -> None:
        self._owner, self._adapters = liveness.current(), Adapters()
        self._loop, self._poller = asyncio.get_running_loop(), Poller()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Task[bool]] = set()

    async def run(self) -> None:
        try:
            await self._poller.run(records.file_nudge, self._begin_due)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._ends, return_exceptions=True)
            await self._adapters.aclose()

    async def _begin_due(self) -> None:
        room = _MOST_AT_ONCE - len(self._tasks)
        for row in await in_db(records.list_due, room) if room > 0 else ():
            if await in_db(records.claim, row, self._owner):
                task = asyncio.create_task(self._fetch(row))
                self._tasks.add(task)
                task.add_done_callback(self._end)
        await self._adapters.close_replaced(2 * records.FETCH_SECONDS)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("the outcome of fetching a file could not be stored; the sweeper will end it: %s", error)
        self._poller.notify()

    async def _fetch(self, row: Attachment) -> None:
        await self._fetch_and_store(row)
        if row.album_until:
            pause = max((row.album_until - timezone.now()).total_seconds(), 0.0) + 0.02
            self._loop.call_later(pause, self._end_album, row)

    def _end_album(self, row: Attachment) -> None:
        """Let the run start when no further part of the album can follow, without waiting for the sweeper."""
        task = asyncio.create_task(in_db(records.settle, records.turn_of(row)))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _fetch_and_store(self, row: Attachment) -> None:
        try:
            async with asyncio.timeout((row.until - timezone.now()).total_seconds()):
                size, content = await self._try(row)
        except TimeoutError:
            await retry_until_stored(records.mark_failed, row, self._owner, "it took too long")
        except AppError as error:
            await retry_until_stored(records.mark_failed, row, self._owner, error.message)
        except Exception as error:
            logger.exception("fetching attachment %s failed", row.pk)
            problem = f"fetching it failed ({type(error).__name__})"
            await retry_until_stored(records.mark_failed, row, self._owner, problem)
        else:
            await retry_until_stored(records.mark_stored, row, self._owner, storage.path_of(row.id), size, content)

    async def _try(self, row: Attachment) -> tuple[int, Content]:
        assert row.account is not None  # noqa: S101 - an uploaded file is never fetched
        for pause in (*_PAUSES, None):
            try:
                adapter = self._adapters.get(row.account)
                return await storage.store(row.id, adapter.fetch(records.as_message_part(row), records.MOST_BYTES))
            except FetchError as error:
                logger.info("attachment %s of %s: %s", row.pk, row.account, error.message)
                if error.is_final or pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")
