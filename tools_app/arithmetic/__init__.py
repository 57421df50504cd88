"""A small evaluator of arithmetic that cannot be made to work hard: what an operation would cost is known before it
is done, and whatever is not on the list is refused. Pure; Python's own `eval` has no part in it.

Whole numbers are exact up to 4,096 bits; everything else is decimal with 34 digits, so that 0.1 + 0.2 is 0.3.
"""

from tools_app.arithmetic.evaluator import MAX_CHARACTERS, evaluate
from tools_app.arithmetic.numbers import CalculationError, Number, to_text

__all__ = ["MAX_CHARACTERS", "CalculationError", "Number", "evaluate", "to_text"]
