"""Hooks around the runs, model calls, tool calls and tasks of robots."""

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tools_app.executions.in_process import in_thread


@dataclass
class HookContext:
    """The state that the hooks of one run, model call, tool call, task or network see.

    robot: robot of the run; None of a network
    subject: the message, the `ModelRequest`, the planned call or the task
    result: what came of it, once there is one. A `before_tool_call` may set it: then the call is not made
    local: for the hooks themselves
    """

    robot: Any
    subject: Any
    result: Any = None
    error: BaseException | None = None
    local: dict[str, Any] = field(default_factory=dict)


class Hook:
    """The base class of hooks. A method may be a coroutine function; another one is called in a thread.

    An `around_` method is a generator that yields once, in place of the enclosed part. The order is: all `before_`
    methods in the order of registration, the enclosed part, all `after_` methods. On an error `on_error` is called, and
    the error is raised again.
    """

    def before_run(self, context: HookContext) -> Any: ...
    def after_run(self, context: HookContext) -> Any: ...
    def around_run(self, context: HookContext) -> Any: ...
    def before_model_call(self, context: HookContext) -> Any: ...
    def after_model_call(self, context: HookContext) -> Any: ...
    def around_model_call(self, context: HookContext) -> Any: ...
    def before_tool_call(self, context: HookContext) -> Any: ...
    def after_tool_call(self, context: HookContext) -> Any: ...
    def around_tool_call(self, context: HookContext) -> Any: ...
    def before_task(self, context: HookContext) -> Any: ...
    def after_task(self, context: HookContext) -> Any: ...
    def around_task(self, context: HookContext) -> Any: ...
    def before_network(self, context: HookContext) -> Any: ...
    def after_network(self, context: HookContext) -> Any: ...
    def around_network(self, context: HookContext) -> Any: ...
    def on_error(self, context: HookContext) -> Any: ...


everywhere: list[Hook] = []  # before those of networks, robots and single runs


@asynccontextmanager
async def hooked(hooks: Sequence[Hook], family: str, context: HookContext) -> AsyncIterator[HookContext]:
    """Call the hooks of a family around the block. An error of a hook counts as one of the block."""
    try:
        await _call(hooks, f"before_{family}", context)
        async with AsyncExitStack() as stack:
            for hook in hooks:
                if _has(hook, f"around_{family}"):
                    await stack.enter_async_context(_Enclosing(getattr(hook, f"around_{family}"), context))
            yield context
        await _call(hooks, f"after_{family}", context)
    except BaseException as error:
        context.error = error
        await _call(hooks, "on_error", context)
        raise


async def _call(hooks: Sequence[Hook], name: str, context: HookContext) -> None:
    for hook in hooks:
        if _has(hook, name):
            await in_thread(getattr(hook, name), context)


def _has(hook: Hook, name: str) -> bool:
    return getattr(type(hook), name) is not getattr(Hook, name)


class _Enclosing(AbstractAsyncContextManager[None]):
    """A generator method as a context manager that hides no error."""

    def __init__(self, method: Any, context: HookContext) -> None:
        self._is_async = inspect.isasyncgenfunction(method)
        self._manager: Any = (asynccontextmanager if self._is_async else contextmanager)(method)(context)

    async def __aenter__(self) -> None:
        if self._is_async:
            await self._manager.__aenter__()
        else:
            await in_thread(self._manager.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_async:
            await self._manager.__aexit__(kind, error, trace)
        else:
            await in_thread(self._manager.__exit__, kind, error, trace)
