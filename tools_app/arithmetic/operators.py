"""Operators, for use inside `numbers.CONTEXT`. Each checks the size of its result before it computes it."""

import ast
import math
from collections.abc import Callable
from decimal import Decimal

from tools_app.arithmetic.numbers import CalculationError, Number, require_bits


def add(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        require_bits(max(left.bit_length(), right.bit_length()) + 1)
        return left + right
    return Decimal(left) + Decimal(right)


def subtract(left: Number, right: Number) -> Number:
    return add(left, -right)


def multiply(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        require_bits(left.bit_length() + right.bit_length())
        return left * right
    return Decimal(left) * Decimal(right)


def divide(left: Number, right: Number) -> Number:
    _require_divisor(right)
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return Decimal(left) / Decimal(right)


def floor_divide(left: Number, right: Number) -> Number:
    """Return the quotient rounded down, also for negative numbers."""
    _require_divisor(right)
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    quotient, rest = divmod(Decimal(left), Decimal(right))
    return quotient - 1 if rest and (rest < 0) != (right < 0) else quotient


def modulo(left: Number, right: Number) -> Number:
    """Return the remainder of `floor_divide`, with the sign of the divisor."""
    _require_divisor(right)
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    rest = Decimal(left) % Decimal(right)
    return rest + right if rest and (rest < 0) != (right < 0) else rest


def power(base: Number, exponent: Number) -> Number:
    """Return the power. Anything to the power of 0 is 1, as in Python."""
    if exponent == 0:
        return 1
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        return _whole_power(base, exponent)
    if base == 0 and exponent < 0:
        raise CalculationError("Zero cannot be raised to a negative power.")
    if base < 0 and isinstance(exponent, Decimal) and exponent != exponent.to_integral_value():
        raise CalculationError("A negative number to a fractional power has no real result.")
    return Decimal(base) ** +Decimal(exponent)


BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.Div: divide,
    ast.FloorDiv: floor_divide,
    ast.Mod: modulo,
    ast.Pow: power,
}
UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: lambda value: value,
    ast.USub: lambda value: -value,
}


def _whole_power(base: int, exponent: int) -> int:
    if abs(base) <= 1:
        return base if exponent % 2 else abs(base)
    require_bits(exponent)  # the result has at least that many: prevents overflow of the next line
    require_bits(math.ceil(exponent * math.log2(abs(base))))
    return int(base**exponent)


def _require_divisor(value: Number) -> None:
    if value == 0:
        raise CalculationError("Division by zero.")
