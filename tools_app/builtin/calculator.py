"""`calculator`: evaluates one arithmetic expression, exactly where possible."""

from typing import Any

from tools_app.arithmetic import MAX_CHARACTERS, CalculationError, evaluate, to_text
from tools_app.parameters import parameters, text
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolError, ToolSpec


class Calculator(Tool):
    spec = ToolSpec(
        name="calculator",
        description=(
            "Evaluate arithmetic: + - * / // % **, sqrt, log(x, base), sin (radians), factorial, gcd, pi and more."
        ),
        parameters=parameters("expression", expression=text("", minLength=1, maxLength=MAX_CHARACTERS)),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"expression": as given, "result": the number as text, so that no digit is lost}."""
        expression = arguments["expression"]
        try:
            return {"expression": expression, "result": to_text(evaluate(expression))}
        except CalculationError as error:
            raise ToolError(str(error)) from error
