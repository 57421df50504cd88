"""The event loop on which synchronous calls of robots run: one thread of this process, so that connections last."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result. May be called beside a running event loop, as in a notebook.

    Raises RuntimeError on the event loop of robots itself, which would wait for itself: use the asynchronous form.
    """
    loop = _started()
    if is_own_thread():
        coroutine.close()
        raise RuntimeError("Await the asynchronous form (`arun`) here: this is the event loop of robots.")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def is_own_thread() -> bool:
    """Return whether this is the thread of the event loop of robots, which cannot wait for itself."""
    return threading.current_thread() is _thread


def _started() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="robots", daemon=True)
            _thread.start()
        return _loop


def _forget() -> None:
    """Drop the loop in a forked child, which has no thread of it."""
    global _loop, _thread, _lock
    _loop, _thread, _lock = None, None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
