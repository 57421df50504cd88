"""An evaluator of arithmetic with bounded cost. Pure.

The cost of an operation is known before it is carried out, and only allow-listed syntax is accepted: it does not use
Python's `eval`. Integers are exact up to 4,096 bits; everything else is decimal with 34 digits, so 0.1 + 0.2 is 0.3.
"""

from tools_app.arithmetic.evaluator import MAX_CHARACTERS, evaluate
from tools_app.arithmetic.numbers import CalculationError, Number, to_text

__all__ = ["MAX_CHARACTERS", "CalculationError", "Number", "evaluate", "to_text"]
