"""Python functions as tools of robots."""

import copy
import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agents_app.robots.failures import RobotError
from tools_app import schema
from tools_app.executions.in_process import in_thread
from tools_app.types import AsyncTool, BaseTool, Effect, Reads, Risk, ToolContext, ToolSpec

_ROBOT = "robot"  # a parameter of this name receives the robot; the schema for the model omits it
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


class FunctionTool(AsyncTool):
    """A function as a tool: its name, docstring and annotations are those of the tool.

    A function that is not a coroutine function runs in a thread. It raises ToolError with a reason
    for the model. risk, reads, sends: as `ToolSpec` has them; by default the function reads and sends nothing outside.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        risk: Risk = Risk.LOW,
        effect: Effect = Effect.ONCE,
        reads: Reads = Reads.NOTHING,
        sends: tuple[str, ...] = (),
        timeout_seconds: int = 60,
    ) -> None:
        self._function = function
        self.robot: Any = None
        self._takes_robot = _ROBOT in inspect.signature(function).parameters
        name = getattr(function, "__name__", type(function).__name__)
        description = inspect.getdoc(function) or name.replace("_", " ")
        parameters = parameters_of(function)
        self.spec = ToolSpec(name, description, parameters, effect, risk, timeout_seconds, reads=reads, sends=sends)
        schema.check_spec(self.spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        given = {**arguments, _ROBOT: self.robot} if self._takes_robot else arguments
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**given)
        return await in_thread(lambda: self._function(**given))


def tool(**declared: Any) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Decorate a function with the declaration of its tool: the keywords of `FunctionTool`."""
    return lambda function: FunctionTool(function, **declared)


def as_tool(given: Any) -> BaseTool:
    """Return a tool of a robot: a tool, a class of tools, or a function. Raises RobotError for anything else."""
    if isinstance(given, FunctionTool):
        return copy.copy(given)  # each robot has its own
    if isinstance(given, BaseTool):
        return given
    if isinstance(given, type) and issubclass(given, BaseTool):
        return given()
    if callable(given):
        return FunctionTool(given)
    raise RobotError(f"{given!r} is not a tool: give a name, a function or a tool.", code="unknown_tool")


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON Schema of a function's parameters. Raises RobotError for *args and **kwargs."""
    hints = get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise RobotError(f"{function!r}: a tool has no parameters like {parameter}.", code="unknown_tool")
        if name == _ROBOT:
            continue
        properties[name] = schema_of(hints.get(name, Any))
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of an annotation; an empty one, which fits everything, for what JSON does not have."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(arg) for arg in args]}
    if annotation is type(None):
        return {"type": "null"}
    kind = _TYPES.get(origin or annotation)
    if kind == "array" and args:
        return {"type": kind, "items": schema_of(args[0])}
    return {"type": kind} if kind else {}
