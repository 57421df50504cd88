"""One thread for long renderings, so that the event loop, and with it all other viewers, need not wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class RenderThread:
    """Runs functions that work on the same texts, never two at the same time."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="render")
        self._jobs: set[Future[Any]] = set()

    async def run(self, function: Callable[[], T], *, is_long: bool) -> T:
        """Run a function and return its result: here, or in the thread if it is long or others are there."""
        if not is_long and not self._jobs:
            return function()
        job = self._threads.submit(function)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.wrap_future(job)
