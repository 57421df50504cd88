"""The connections that a runs worker holds: claims what is free, follows changes of accounts, releases at the end."""

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.kernel.outage import outages
from sessions_app.channels.connections import claims
from sessions_app.channels.connections.holder import Holder
from sessions_app.channels.connections.sockets_process import SocketsProcess
from sessions_app.models import ChannelAccount

logger = logging.getLogger(__name__)

_PASS_SECONDS = 1.0
_RELEASE_SECONDS = 10.0


class _Held:
    """A connection that this process holds. version: of the account, as which it was opened."""

    def __init__(self, account: ChannelAccount, task: asyncio.Task[None]) -> None:
        self.account, self.version, self.task = account, account.updated_at, task


class Keeper:
    """The connections of one worker, on one event loop.

    request_process: called while a connection is needed and the process `sockets` does not run.
    """

    def __init__(self, holder: UUID, process: SocketsProcess, request_process: Callable[[], None]) -> None:
        self._holder, self._process, self._request_process = holder, process, request_process
        self._observer = liveness.Observer()
        self._accounts = claims.ListeningAccounts()
        self._held: dict[UUID, _Held] = {}

    async def run(self) -> None:
        """Keep connections open until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except Exception as error:
                    outages.failed(logger, error, "cannot look for connections to open; retrying")
                else:
                    outages.worked()
                await asyncio.sleep(_PASS_SECONDS)
        finally:
            await self._release([*self._held.values()])
            await self._process.aclose()

    async def _look(self) -> None:
        """Do one pass."""
        listening = {account.pk: account for account in await in_db(self._accounts.read)}
        ended = [held for key, held in self._held.items() if not self._is_current(held, listening.get(key))]
        if ended:
            await self._release(ended)
        free = [account for key, account in listening.items() if key not in self._held]
        waiting = [account for account in free if not claims.waits_for_operator(account)]
        if not waiting:
            return
        if await self._process.connect():
            await self._claim(waiting)
        else:
            self._request_process()

    def _is_current(self, held: _Held, account: ChannelAccount | None) -> bool:
        """Return whether the connection is open, still ours, and the account is as it was when it was opened."""
        if account is None or account.updated_at != held.version or held.task.done():
            return False
        row = claims.connection_of(account)
        return row is not None and row.holder == self._holder

    async def _claim(self, free: list[ChannelAccount]) -> None:
        rows = [claims.connection_of(account) for account in free]
        owners = {row.holder for row in rows if row and row.holder and row.holder != self._holder}
        dead = {*(await in_db(self._observer.dead, owners)), self._holder} if owners else {self._holder}
        for account in free:
            row = await in_db(claims.claim, account, self._holder, dead)
            if row is not None:
                task = asyncio.create_task(Holder(account, self._holder, row.cursor, self._process).run())
                self._held[account.pk] = _Held(account, task)

    async def _release(self, ended: list[_Held]) -> None:
        """Close connections, so that another process can hold them at once."""
        for held in ended:
            held.task.cancel()
        if ended:
            await asyncio.wait([held.task for held in ended], timeout=_RELEASE_SECONDS)
        for held in ended:
            self._held.pop(held.account.pk, None)
            if held.task.done() and not held.task.cancelled() and (error := held.task.exception()):
                logger.error("the connection of %s failed", held.account, exc_info=error)
            try:
                await in_db(claims.release, held.account, self._holder)
            except Exception as error:  # another process takes over when this one has ended
                outages.failed(logger, error, f"the connection of {held.account} could not be released")
