"""The two number types, their limits, and the format of results."""

from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow

Number = int | Decimal

MAX_BITS = 4096
# Decimals with more integer digits exceed MAX_BITS.
_MAX_WHOLE_DIGITS = 1233

# 34 digits as in decimal128; the last six are guard digits, not shown.
CONTEXT = Context(prec=34, Emax=6144, Emin=-6143, traps=[InvalidOperation, DivisionByZero, Overflow])
_SHOWN = Context(prec=28, Emax=6144, Emin=-6143, traps=[])
_PLAIN_EXPONENTS = range(-15, 28)


class CalculationError(ValueError):
    """The expression has no result. The message says why, for the model."""


def require_bits(bits: int) -> None:
    """Raise CalculationError for an integer of that size, before it is computed."""
    if bits > MAX_BITS:
        raise CalculationError(f"The result would be too large: whole numbers are limited to {MAX_BITS} bits.")


def require_finite(value: Number) -> Number:
    """Return the value. Raises CalculationError for infinity and NaN."""
    if isinstance(value, Decimal) and not value.is_finite():
        raise CalculationError("The result is not a finite number.")
    return value


def whole(value: Number, *, of: str) -> int:
    """Return the value as an int. Raises CalculationError, naming the function `of`, if it has a fraction."""
    if isinstance(value, int):
        return value
    if value.adjusted() >= _MAX_WHOLE_DIGITS:
        raise CalculationError(f"The argument of {of} is too large.")
    if value != value.to_integral_value():
        raise CalculationError(f"{of} requires integers.")
    return int(value)


def to_text(value: Number) -> str:
    """Return the number in common notation: all digits of an integer, else at most 28, without trailing zeros."""
    if isinstance(value, int):
        return str(value)
    shown = _SHOWN.plus(value)
    if not shown:
        return "0"
    shown = shown.normalize(_SHOWN)
    return f"{shown:f}" if shown.adjusted() in _PLAIN_EXPONENTS else str(shown)
