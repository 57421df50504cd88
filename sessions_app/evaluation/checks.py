"""The checks of a case, all but the one by a model."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agents_app.structured_output import problem_of
from agents_app.types import Usage
from sessions_app.evaluation.cases import Case


@dataclass(frozen=True)
class Outcome:
    """The result of the runs of a case. failure: why there is no answer, else empty.

    tools: names of the called ones.
    cost: None if no model had a price.
    seconds: from the first message to the answer.
    """

    answer: str
    failure: str = ""
    tools: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost: float | None = None
    seconds: float = 0.0


def faults_of(case: Case, outcome: Outcome) -> Iterator[str]:
    """Yield the expectations that the outcome does not meet."""
    if outcome.failure:
        yield outcome.failure
        return
    answer, folded = outcome.answer, outcome.answer.casefold()
    yield from (f"the answer lacks {text!r}" for text in case.contains if text.casefold() not in folded)
    yield from (f"the answer contains {text!r}" for text in case.excludes if text.casefold() in folded)
    if case.equals is not None and answer.strip() != case.equals.strip():
        yield f"the answer is not {case.equals.strip()!r}"
    if case.matches is not None and not re.search(case.matches, answer):
        yield f"the answer does not match {case.matches!r}"
    if case.schema is not None and (problem := problem_of(answer, case.schema)):
        yield f"the answer does not match the schema: {problem}"
    yield from (f"the tool {name} was not called" for name in case.calls if name not in outcome.tools)
    yield from (f"the tool {name} was called" for name in case.avoids if name in outcome.tools)
