"""One account's connection: opened again and again, watched for silence, and its events stored in order.

The process `sockets` talks to the platform; this is the side that stores.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

from audit_app.kernel import context
from audit_app.kernel.database import in_db, is_away, retry_until_stored
from audit_app.kernel.errors import AppError
from audit_app.kernel.ids import new_id
from audit_app.kernel.outage import outages
from sessions_app.channels import accounts
from sessions_app.channels.connections import claims, secret_renewal
from sessions_app.channels.connections.sockets_process import SocketsProcess
from sessions_app.channels.inbound import dispatch
from sessions_app.models import ChannelAccount
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.link import ConnectionLost, NeedsAttention, Received
from sessions_app.platforms.messages import OfAccount

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
_HEARTBEAT_STORED_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_LONGEST_WAIT_SECONDS = 600.0  # if a platform asks for more
_CLOSE_SECONDS = 8.0


class TakenOver(Exception):
    """The connection belongs to another process now: this one was taken for dead."""


class Holder:
    """Keeps one connection open. It was claimed by this process."""

    def __init__(self, account: ChannelAccount, holder: UUID, cursor: str, process: SocketsProcess) -> None:
        self._account, self._holder, self._cursor, self._process = account, holder, cursor, process
        self._pause = _FIRST_PAUSE_SECONDS

    async def run(self) -> None:
        """Receive until cancelled or taken over, an operator has to act, or the process `sockets` has ended.

        Errors of the connection are retried.
        """
        try:
            while True:
                pause = await self._connect()
                if not self._process.is_connected:
                    return
                await asyncio.sleep(pause)
        except NeedsAttention as problem:
            logger.error("%s needs attention: %s", self._account, problem.message)
            await retry_until_stored(claims.note_attention, self._account, self._holder, problem.message)
        except TakenOver:
            logger.warning("the connection of %s was taken over by another process", self._account)

    async def _connect(self) -> float:
        """Open the connection once. Returns the seconds to wait before the next attempt. Raises NeedsAttention."""
        adapter = await self._make_adapter()
        await secret_renewal.renew(self._account, adapter)
        link = ActiveLink(self._account, self._holder, self._cursor)
        error = ConnectionLost("The platform ended the connection.")
        try:
            await self._listen(adapter, link)
        except ConnectionLost as lost:
            error = lost
        except (NeedsAttention, TakenOver):
            raise
        except Exception as problem:
            logger.exception("%s: receiving failed", self._account)
            error = ConnectionLost(f"Receiving failed ({type(problem).__name__}).")
        finally:
            self._cursor = link.cursor
        logger.warning("%s is not connected: %s", self._account, error.message)
        await retry_until_stored(claims.note_lost, self._account, self._holder, error.message)
        if link.has_beaten:
            self._pause = _FIRST_PAUSE_SECONDS
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        # Many accounts that lose their platform together must not all come back in the same second.
        return max(pause * random.uniform(0.5, 1.0), min(error.retry_after_seconds, _LONGEST_WAIT_SECONDS))  # noqa: S311

    async def _make_adapter(self) -> ChannelAdapter:
        while True:
            try:
                return await in_db(accounts.make_adapter, self._account)
            except AppError as error:
                raise NeedsAttention(error.message) from None
            except Exception as error:
                if not is_away(error):
                    raise NeedsAttention(f"The channel cannot be used ({type(error).__name__}).") from error
                outages.failed(logger, error, "an account cannot be loaded; retrying")
            await asyncio.sleep(_CHECK_SECONDS)

    async def _listen(self, adapter: ChannelAdapter, link: "ActiveLink") -> None:
        """Receive, and look each second whether the platform still sends. Raises what ends the connection."""
        listening = asyncio.create_task(self._process.listen(adapter, link))
        try:
            while not (await asyncio.wait({listening}, timeout=_CHECK_SECONDS))[0]:
                await link.store_heartbeat()
                if link.silent_for > adapter.silent_seconds:
                    problem = f"The platform sent nothing for {adapter.silent_seconds:.0f} seconds."
                    raise ConnectionLost(problem)
            await listening
        finally:
            await link.store_heartbeat()
            if not listening.done():
                listening.cancel()
                await asyncio.wait({listening}, timeout=_CLOSE_SECONDS)
            elif not listening.cancelled():
                listening.exception()  # it may have ended just when this was cancelled: asyncio would log it


class ActiveLink:
    """The gateway's end of a connection; see `sessions_app.platforms.link.Link`."""

    def __init__(self, account: ChannelAccount, holder: UUID, cursor: str) -> None:
        self._account, self._holder, self._cursor = account, holder, cursor
        self._loop = asyncio.get_running_loop()
        self._beat_at = self._loop.time()
        self._stored_at: float | None = None
        self._delivering = 0
        self.has_beaten = False

    @property
    def cursor(self) -> str:
        return self._cursor

    @property
    def silent_for(self) -> float:
        """Return the seconds since the last heartbeat. Time in which we store events does not count."""
        return 0.0 if self._delivering else self._loop.time() - self._beat_at

    def heartbeat(self) -> None:
        self._beat_at, self.has_beaten = self._loop.time(), True

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        self._delivering += 1
        try:
            for one in received:
                await self._store(one)
            is_ours = await retry_until_stored(
                claims.advance, self._account, self._holder, cursor, has_events=bool(received)
            )
        finally:
            self._delivering -= 1
            self.heartbeat()
        if not is_ours:
            raise TakenOver
        self._cursor = cursor

    async def _store(self, one: Received) -> None:
        """Store one event. One that fails each time is reported and skipped: it would hold up all after it."""
        adapter = accounts.pure
        with context.bind(request_id=new_id().hex, actor=f"channel:{self._account.channel}"):
            try:
                store = partial(_handle, self._account, adapter, one)
                await retry_until_stored(store)
            except Exception as error:
                logger.exception("%s: an event could not be stored", self._account)
                problem = f"A message could not be stored ({type(error).__name__})."
                await retry_until_stored(accounts.note_error, self._account, problem)

    async def store_heartbeat(self) -> None:
        """Store the time of the last heartbeat, if that is due. A database that is away is no reason to disconnect."""
        is_first = self._stored_at is None
        is_due = is_first or self._beat_at - (self._stored_at or 0.0) >= _HEARTBEAT_STORED_SECONDS
        if not self.has_beaten or not is_due:
            return
        with suppress(Exception):
            await in_db(claims.note_heartbeat, self._account, self._holder, is_first=is_first)
            self._stored_at = self._beat_at


def _handle(account: ChannelAccount, adapters: accounts.Adapters, one: Received) -> None:
    """Handle an event for the account that it is of."""
    adapter, event = adapters.get(account), one.event
    if isinstance(event, OfAccount):
        found = accounts.find_routed(account, adapter.routed_by, event.value)
        if found and found[1].shares_connection(adapter):
            (account, adapter), event = found, event.event
    dispatch.handle_events(account, adapter, [event], one.raw)
