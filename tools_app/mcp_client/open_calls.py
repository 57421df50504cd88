"""The calls in progress of one connection, which answer what their server asks meanwhile. Loads the SDK."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import mcp_types as types

from tools_app.mcp_client.errors import CallStopped

# Returns the response to a request of a server, None to refuse it, which ends the call.
Answer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any] | None]]


class _Call:
    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.is_stopped = False
        self._task = asyncio.current_task()

    def stop(self) -> None:
        self.is_stopped = True
        if self._task:
            self._task.cancel()

    def is_only_stopped(self) -> bool:
        """Return whether a cancellation of the call's task comes from `stop` alone, and take that back."""
        return self.is_stopped and self._task is not None and self._task.uncancel() == 0


# Set while a call sends its request: over HTTP, what the server sends back for it is handled in the same context.
_current: ContextVar[_Call | None] = ContextVar("mcp_call", default=None)


class OpenCalls:
    """The calls in progress. True if there are any."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    async def run(self, request: Awaitable[Any], answer: Answer | None) -> Any:
        """Send a request and return its result. Raises CallStopped if `answer` has refused a request of the server."""
        call = _Call(answer)
        self._calls.append(call)
        token = _current.set(call)
        try:
            return await request
        except asyncio.CancelledError:
            if call.is_only_stopped():
                raise CallStopped from None
            raise
        finally:
            _current.reset(token)
            self._calls.remove(call)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Answer a request of the server. It is cancelled if the call that it belongs to is not known.

        Over stdio no request names its call, so a server that has several calls at once is not answered.
        """
        call = _current.get()
        if call is None and len(self._calls) == 1:
            call = self._calls[0]
        if call is None or call.answer is None or call not in self._calls:
            return types.ElicitResult(action="cancel")
        shown = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        response = await call.answer({"method": "elicitation/create", "params": shown})
        if response is None:
            call.stop()
            return types.ErrorData(code=types.INVALID_REQUEST, message="This cannot be asked.")
        return types.ElicitResult(**response)
