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
        return value if places >= 0 else _round_whole(value, 10**-places)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -places:
        return value
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if places <= 0 else rounded


def _round_whole(value: int, unit: int) -> int:
    size = (abs(value) + unit // 2) // unit * unit
    return size if value >= 0 else -size


def _floor(value: Number) -> Number:
    return value if isinstance(value, int) else whole(value.to_integral_value(ROUND_FLOOR), of="floor")


def _ceil(value: Number) -> Number:
    return value if isinstance(value, int) else whole(value.to_integral_value(ROUND_CEILING), of="ceil")


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


def _in_floats(name: str, function: Callable[[float], float]) -> Callable[[Number], Number]:
    """Return a function that `decimal` lacks, with the 15 digits of a float; noise around 0 is rounded to 0."""

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
    "floor": Function(_floor),
    "ceil": Function(_ceil),
    "sqrt": Function(_sqrt),
    "exp": Function(lambda value: Decimal(value).exp()),
    "log": Function(_log, most=2),
    "log2": Function(lambda value: _log(value, 2)),
    "log10": Function(_log10),
    "sin": Function(_in_floats("sin", math.sin)),
    "cos": Function(_in_floats("cos", math.cos)),
    "tan": Function(_in_floats("tan", math.tan)),
    "asin": Function(_in_floats("asin", math.asin)),
    "acos": Function(_in_floats("acos", math.acos)),
    "atan": Function(_in_floats("atan", math.atan)),
    "degrees": Function(lambda value: divide(multiply(value, 180), PI)),
    "radians": Function(lambda value: divide(multiply(value, PI), 180)),
    "factorial": Function(_factorial),
    "gcd": Function(lambda *values: math.gcd(*(whole(value, of="gcd") for value in values)), most=_MAX_ARGUMENTS),
}
