"""Calls without rows that ask a person: nobody is there, so that is cancelled at once."""

from typing import Any
from uuid import UUID

import pytest

from tools_app.executions.in_process import _without_person
from tools_app.types import AsksPerson, AsyncTool, ToolContext, ToolError, ToolSpec
from tools_app.types.questions import Question

CONTEXT = ToolContext(UUID(int=1), UUID(int=2), UUID(int=3), "agent", "user:1", "key", 10)


class Asking(AsyncTool):
    """Asks twice, and returns what it was resumed with."""

    spec = ToolSpec("asking", "Asks.", {})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        number = int(context.resumed.state) if context.resumed else 0
        if number < arguments["times"]:
            raise AsksPerson([Question("Who?")], str(number + 1))
        if number > 2:
            raise ToolError("too often")
        return [number, context.resumed and context.resumed.answer, context.ask_now]


async def test_each_question_is_cancelled_and_the_call_goes_on() -> None:
    assert await _without_person(Asking(), {"times": 2}, CONTEXT) == [2, None, None]
    assert await _without_person(Asking(), {"times": 0}, CONTEXT) == [0, None, None]


async def test_the_tool_limits_how_often_it_asks() -> None:
    with pytest.raises(ToolError):
        await _without_person(Asking(), {"times": 3}, CONTEXT)
