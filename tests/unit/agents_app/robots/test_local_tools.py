"""Functions as tools: the schema comes from the signature."""

from typing import Any, Literal

import pytest

from agents_app.robots.failures import RobotError
from agents_app.robots.local_tools import FunctionTool, as_tool, tool
from tools_app.types import Effect, Reads, Risk


def search(text: str, most: int = 5, kinds: list[str] | None = None, order: Literal["new", "old"] = "new") -> Any:
    """Search the archive."""
    return text, most, kinds, order


def test_the_declaration_comes_from_the_signature() -> None:
    spec = as_tool(search).spec
    assert (spec.name, spec.description, spec.risk, spec.reads) == (
        "search",
        "Search the archive.",
        Risk.LOW,
        Reads.NOTHING,
    )
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "most": {"type": "integer"},
            "kinds": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "order": {"enum": ["new", "old"]},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_decorated_function_has_its_own_risk_and_is_still_a_function() -> None:
    @tool(risk=Risk.HIGH, effect=Effect.READ, reads=Reads.OUTSIDE)
    def erase(robot: Any, path: str) -> str:
        return path

    assert (erase.spec.risk, erase.spec.effect, erase.spec.description) == (Risk.HIGH, Effect.READ, "erase")
    assert list(erase.spec.parameters["properties"]) == ["path"] and erase(None, "x") == "x"
    assert isinstance(as_tool(erase), FunctionTool) and as_tool(erase) is not erase


def test_callable_objects_are_tools() -> None:
    class Adder:
        def __call__(self, a: int) -> int:
            return a + 1

    assert as_tool(Adder()).spec.parameters["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("wrong", [5, lambda *texts: texts, lambda **texts: texts])
def test_what_cannot_be_a_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(RobotError):
        as_tool(wrong)
