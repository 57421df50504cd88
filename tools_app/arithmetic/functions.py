"""Functions and constants, for use inside `numbers.CONTEXT`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from tools_app.arithmetic.numbers import CalculationError, Number, require_bits, whole
from tools_app.arithmetic.operators import divide, multiply

PI = Decimal("3.141592653589793238462643383279502884197")
CONSTANTS: dict[str, Decimal] = {"pi": PI, "e": Decimal("2.718281828459045235360287471352662497757"), "tau": 2 * PI}

_MAX_ROUND_DIGITS = 30
# Larger binary floating-point numbers are too imprecise for an angle.
_MAX_ANGLE = 10**15
_MAX_ARGUMENTS = 100


@dataclass(frozen=True)
class Function:
    """A function. least, most: number of arguments."""

    call: Callable[..., Number]
    least: int = 1
    most: int = 1


def _round(value: Number, digits: Number = 0) -> Number:
    places = whole(digits, of="round")
    if abs(places) > _MAX_ROUND_DIGITS:
        raise CalculationError(f"round takes at most {_MAX_ROUND_DIGITS} digits.")
    if isinstance(value, int):
        unit: int = 10 ** max(-places, 0)
        size = (abs(value) + unit // 2) // unit * unit
        return size if value >= 0 else -size
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -places:
        return value
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if places <= 0 else rounded


def _to_whole(name: str, rounding: str) -> Callable[[Number], Number]:
    return lambda value: value if isinstance(value, int) else whole(value.to_integral_value(rounding), of=name)


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise CalculationError("The square root of a negative number is not real.")
    return Decimal(value).sqrt()


def _log(value: Number, base: Number | None = None) -> Number:
    if value <= 0 or (base is not None and (base <= 0 or base == 1)):
        raise CalculationError("A logarithm needs a positive number, and a positive base other than 1.")
    return Decimal(value).ln() if base is None else Decimal(value).ln() / Decimal(base).ln()


def _log10(value: Number) -> Number:
    if value <= 0:
        raise CalculationError("A logarithm needs a positive number.")
    return Decimal(value).log10()


def _factorial(value: Number) -> Number:
    count = whole(value, of="factorial")
    if count < 0:
        raise CalculationError("factorial needs a number of at least 0.")
    require_bits(count)  # n! has more than n bits from n = 6 on: prevents overflow of the estimate below
    require_bits(math.ceil(math.lgamma(count + 1) / math.log(2)))
    return math.factorial(count)


def _in_floats(name: str) -> Callable[[Number], Number]:
    """Return a function of `math`, with the 15 digits of a float; noise around 0 is rounded to 0."""
    function: Callable[[float], float] = getattr(math, name)

    def call(value: Number) -> Number:
        if not -_MAX_ANGLE <= value <= _MAX_ANGLE:
            raise CalculationError(f"The argument of {name} is too large.")
        try:
            result = function(float(value))
        except ValueError:
            raise CalculationError(f"{name} is not defined for this argument.") from None
        return Decimal(0) if abs(result) < 1e-15 else Decimal(f"{result:.15g}")

    return call


FUNCTIONS: dict[str, Function] = {
    "abs": Function(abs),
    "round": Function(_round, most=2),
    "min": Function(min, most=_MAX_ARGUMENTS),
    "max": Function(max, most=_MAX_ARGUMENTS),
    "floor": Function(_to_whole("floor", ROUND_FLOOR)),
    "ceil": Function(_to_whole("ceil", ROUND_CEILING)),
    "sqrt": Function(_sqrt),
    "exp": Function(lambda value: Decimal(value).exp()),
    "log": Function(_log, most=2),
    "log2": Function(lambda value: _log(value, 2)),
    "log10": Function(_log10),
    **{name: Function(_in_floats(name)) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    "degrees": Function(lambda value: divide(multiply(value, 180), PI)),
    "radians": Function(lambda value: divide(multiply(value, PI), 180)),
    "factorial": Function(_factorial),
    "gcd": Function(lambda *values: math.gcd(*(whole(value, of="gcd") for value in values)), most=_MAX_ARGUMENTS),
}
