"""Cases from real runs: the first messages of sessions and their answers. Reads only."""

from collections.abc import Iterator

from agents_app.models import Agent
from agents_app.types import RunStatus
from audit_app.kernel import redact
from sessions_app.evaluation.cases import Case
from sessions_app.evaluation.runner import METADATA
from sessions_app.models import Turn
from tools_app import selectors as tools

_JUDGE = "The answer says the same as the good answer, in other words or not."


def cases_from_runs(agent: Agent, *, limit: int) -> Iterator[Case]:
    """Yield a case for each of the newest completed runs that had no earlier messages and no files.

    Their answers are the references. Known secrets are masked; what people wrote stays as it is.
    """
    turns = Turn.objects.select_related("run").filter(
        role="user",
        ordinal=0,
        part=0,
        attached="",
        run__agent=agent,
        run__status=RunStatus.COMPLETED.value,
        run__user_turn_count=1,
        session__deleted_at=None,
    )
    for turn in turns.exclude(**{f"session__metadata__{METADATA}__isnull": False}).order_by("-pk")[:limit]:
        if turn.run is None or not turn.content.strip():
            continue
        calls = dict.fromkeys(execution.tool for execution in tools.list_executions(turn.run.pk))
        yield Case(
            f"run {turn.run.pk}",
            (str(redact.masked_text(turn.content)),),
            calls=tuple(calls),
            judge=_JUDGE,
            reference=str(redact.masked_text(turn.run.answer)),
        )
