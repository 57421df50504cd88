"""The check, shared by all open connections of a process, that they are still allowed.

A revoked key, a logout or a deactivated user ends a connection within CHECK_SECONDS and the time of a few statements,
whose number does not depend on that of the connections. While none is open, nothing is asked.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app import access
from sessions_app.identity import request_admission
from sessions_app.identity.principal import Principal

logger = logging.getLogger(__name__)

CHECK_SECONDS = 3.0

# Checks several connections at once, and returns an error for each that is not allowed any more. Synchronous.
FindRefusals = Callable[[Sequence[Any]], Sequence[AppError | None]]


class OpenConnection(Protocol):
    """A connection that ends with its caller's credential, and with the access to its session."""

    @property
    def principal(self) -> Principal: ...

    @property
    def is_endless(self) -> bool:
        """True if it ends with the token of its caller, too."""

    @property
    def session_id(self) -> UUID | None:
        """The session that the connection shows, None if it shows none or several."""


def find_refusals(connections: Sequence[OpenConnection]) -> list[AppError | None]:
    """Check connections of users again: the credential, and the access to the session. At most five statements."""
    principals = [one.principal if one.is_endless else replace(one.principal, valid_until=None) for one in connections]
    refusals: list[AppError | None] = [*request_admission.find_refusals(principals)]
    shown = [(place, one.session_id) for place, one in enumerate(connections) if one.session_id and not refusals[place]]
    hidden = access.find_refusals([(connections[place].principal.user, session_id) for place, session_id in shown])
    for (place, _), error in zip(shown, hidden, strict=True):
        refusals[place] = error
    return refusals


@contextmanager
def refusal_of(connection: Any, check: FindRefusals = find_refusals) -> Iterator[asyncio.Future[AppError]]:
    """Have an open connection checked, and return the future of the error that refuses it.

    check: called with all connections that were given with it.
    """
    loop = asyncio.get_running_loop()
    watch = _watches.setdefault(loop, _Watch())
    refusal: asyncio.Future[AppError] = loop.create_future()
    watch.add(refusal, connection, check)
    try:
        yield refusal
    finally:
        watch.open.pop(refusal)
        refusal.cancel()


async def until_refused(connection: Any, check: FindRefusals = find_refusals) -> AppError:
    """Wait until an open connection is refused, and return the error. check: as for `refusal_of`."""
    with refusal_of(connection, check) as refusal:
        return await refusal


class _Watch:
    """The open connections of one event loop, and the task that checks them while there are any."""

    def __init__(self) -> None:
        self.open: dict[asyncio.Future[AppError], tuple[Any, FindRefusals]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, refusal: asyncio.Future[AppError], connection: Any, check: FindRefusals) -> None:
        self.open[refusal] = connection, check
        if self._task is None or self._task.done():
            # In a context of its own: what a check logs or audits is not of the first connection's request.
            self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    async def _run(self) -> None:
        while self.open:
            await asyncio.sleep(CHECK_SECONDS)
            for check in {check for _, check in self.open.values()}:
                try:
                    await self._call(check)
                except Exception as error:  # as while the database is unavailable: the connections stay
                    logger.warning("cannot check whether open connections are still allowed: %r", error)

    async def _call(self, check: FindRefusals) -> None:
        connections = [(refusal, connection) for refusal, (connection, own) in self.open.items() if own is check]
        asked = [
            (refusal, connection) for refusal, connection in connections if getattr(connection, "is_admitted", True)
        ]
        errors = await in_db(check, [connection for _, connection in asked])
        for (refusal, _), error in zip(asked, errors, strict=True):
            if error is not None and not refusal.done():
                refusal.set_result(error)


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()
