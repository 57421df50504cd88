"""The end of asyncio tasks that are no longer needed."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended, in whichever way."""
    ending = list(futures)
    for future in ending:
        future.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
