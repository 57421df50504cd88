"""The port by which `find_tools` learns of the tools of a run. `komand.wiring` registers the implementation."""

from collections.abc import Callable, Sequence
from uuid import UUID

from tools_app.types import ToolSpec

HiddenTools = Callable[[UUID], Sequence[ToolSpec]]

_registered: list[HiddenTools] = []


def register(hidden_tools: HiddenTools) -> None:
    _registered[:] = [hidden_tools]


def list_hidden(run_id: UUID) -> Sequence[ToolSpec]:
    """Return the tools that the run may use and that its model calls do not list by themselves. Reads rows."""
    return _registered[0](run_id) if _registered else ()
