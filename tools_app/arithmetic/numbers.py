"""The two kinds of number, their limits, and how a result is shown."""

from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow

Number = int | Decimal

MAX_BITS = 4096
# Past this many digits before the point a decimal could not become a whole number of MAX_BITS.
_MAX_WHOLE_DIGITS = 1233

# 34 digits as in decimal128; the last six are a guard that a shown result leaves out.
CONTEXT = Context(prec=34, Emax=6144, Emin=-6143, traps=[InvalidOperation, DivisionByZero, Overflow])
_SHOWN = Context(prec=28, Emax=6144, Emin=-6143, traps=[])
_PLAIN_EXPONENTS = range(-15, 28)


class CalculationError(ValueError):
    """The expression has no answer here. The message says why, for the model to read."""


def require_bits(bits: int) -> None:
    """Refuse a whole number of that size before it is computed."""
    if bits > MAX_BITS:
        raise CalculationError(f"The result would be too large: whole numbers are limited to {MAX_BITS} bits.")


def require_finite(value: Number) -> Number:
    """The value, unless it is an infinity or not a number."""
    if isinstance(value, Decimal) and not value.is_finite():
        raise CalculationError("The result is not a finite number.")
    return value


def whole(value: Number, *, of: str) -> int:
    """The value as an int. Raises CalculationError, naming the function `of`, when it has a fraction."""
    if isinstance(value, int):
        return value
    if value.adjusted() >= _MAX_WHOLE_DIGITS:
        raise CalculationError(f"The argument of {of} is too large.")
    if value != value.to_integral_value():
        raise CalculationError(f"{of} needs whole numbers.")
    return int(value)


def to_text(value: Number) -> str:
    """As a person would write it: every digit of a whole number, up to 28 of any other, no trailing zeros."""
    if isinstance(value, int):
        return str(value)
    shown = _SHOWN.plus(value)
    if not shown:
        return "0"
    shown = shown.normalize(_SHOWN)
    return f"{shown:f}" if shown.adjusted() in _PLAIN_EXPONENTS else str(shown)
