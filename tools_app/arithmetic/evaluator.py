"""Parses an expression and evaluates its tree, node by node, through an allow-list."""

import ast
from decimal import Decimal, DecimalException, DivisionByZero, Overflow, localcontext

from tools_app.arithmetic.functions import CONSTANTS, FUNCTIONS
from tools_app.arithmetic.numbers import CONTEXT, CalculationError, Number, require_bits, require_finite
from tools_app.arithmetic.operators import BINARY, UNARY

MAX_CHARACTERS = 2_000
_MAX_DEPTH = 60

# Other common signs of operators, and white space.
_SIGNS = str.maketrans({"^": "**", "×": "*", "·": "*", "÷": "/", "−": "-", "\n": " ", "\r": " ", "\t": " "})


def evaluate(expression: str) -> Number:
    """Return the value of an arithmetic expression. Raises CalculationError with the reason.

    Takes milliseconds for any input: length, depth and the size of every intermediate result are limited.
    """
    if len(expression) > MAX_CHARACTERS:
        raise CalculationError(f"The expression is longer than {MAX_CHARACTERS} characters.")
    source = expression.translate(_SIGNS).strip()
    tree = _parse(source)
    with localcontext(CONTEXT):
        try:
            return _Walk(source).value(tree.body, 0)
        except DivisionByZero:
            raise CalculationError("Division by zero.") from None
        except Overflow:
            raise CalculationError("The result would be too large.") from None
        except DecimalException:
            raise CalculationError("The result is undefined, or too large to be exact.") from None


def _parse(source: str) -> ast.Expression:
    if not source.isascii():
        raise CalculationError("The expression may contain only digits, operators, parentheses and function names.")
    try:
        return ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise CalculationError(f"The expression is not valid: {reason}.") from None


class _Walk:
    def __init__(self, source: str) -> None:
        self._source = source

    def value(self, node: ast.expr, depth: int) -> Number:
        if depth > _MAX_DEPTH:
            raise CalculationError("The expression is nested too deeply.")
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.BinOp():
                return self._chain(node, depth)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return UNARY[type(op)](self.value(operand, depth + 1))
            case ast.Call():
                return self._call(node, depth)
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.Name(id=name):
                raise CalculationError(f"There is no constant {name[:40]!r}. Known: {', '.join(CONSTANTS)}.")
            case _:
                raise CalculationError(f"{type(node).__name__} is not arithmetic that is supported here.")

    def _chain(self, node: ast.BinOp, depth: int) -> Number:
        """Evaluate a + b + c … in a loop: it is nested to the left, and its length must not count as depth."""
        row: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp):
            row.append(first)
            first = first.left
        value = self.value(first, depth + 1)
        for link in reversed(row):
            operator = BINARY.get(type(link.op))
            if operator is None:
                raise CalculationError(f"The operator {type(link.op).__name__} is not supported. Use + - * / // % **.")
            value = require_finite(operator(value, self.value(link.right, depth + 1)))
        return value

    def _call(self, node: ast.Call, depth: int) -> Number:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = FUNCTIONS.get(name)
        if function is None:
            raise CalculationError(f"There is no such function. Known: {', '.join(FUNCTIONS)}.")
        if node.keywords or not function.least <= len(node.args) <= function.most:
            raise CalculationError(f"{name} takes {function.least} to {function.most} arguments.")
        return require_finite(function.call(*(self.value(argument, depth + 1) for argument in node.args)))

    def _literal(self, node: ast.Constant) -> Number:
        if type(node.value) is int:
            require_bits(node.value.bit_length())
            return node.value
        if type(node.value) is float:
            # From its source text: the float has lost digits.
            text = self._source[node.col_offset : node.end_col_offset]
            return +Decimal(text.replace("_", ""))
        raise CalculationError("Only integers and decimal numbers are supported.")
