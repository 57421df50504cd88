"""The step of a run that asks a person instead of calling a model: a task of a network with a question.

It is recorded like a model call that has called `ask_user`. So the question is planned, shown and answered as one of an
agent, and the answer ends the run.
"""

import json
from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from agents_app import selectors
from agents_app.errors import Fenced
from agents_app.models import Run, Step
from agents_app.runs import child_messages, transitions, writes
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import End
from agents_app.types import ModelResponse, RunStatus, Snapshot
from tools_app import selectors as tools
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall
from tools_app.types.questions import ASK_USER

_UNANSWERED = End(RunStatus.FAILED, "no_answer", "Nobody answered the question in time.")


def advance_question(claim: Claim, snapshot: Snapshot) -> Snapshot | None:
    """Ask the question of a run, or end the run with the answer. Owns its transaction.

    Return what `writes.decide_and_apply` returns. Raises Fenced if another process has claimed the run.
    """
    with transaction.atomic():
        if snapshot.executions:
            outcome = _outcome(snapshot.executions[-1])
            if not transitions.end(claim.run, outcome, held_by=claim.owner, recorded=snapshot):
                raise Fenced
            return None
        if not transitions.move(claim.run, RunStatus.RUNNING, held_by=claim.owner, **transitions.NO_CRASHES):
            raise Fenced
        step = _step_of(claim, snapshot)
        step.save(force_insert=True)
        view = selectors.step_view(step)
        asked = replace(child_messages.refreshed(claim.run, snapshot), steps=(*snapshot.steps, view))
        return writes.decide_and_apply(claim, asked, view)


def _step_of(claim: Claim, snapshot: Snapshot) -> Step:
    """Return the unsaved step that asks: without a model, and without a cost."""
    now = timezone.now()
    return Step.of_response(
        ModelResponse(tool_calls=(_call_of(claim.run),), finish_reason="tool_calls"),
        run_id=claim.run.pk,
        index=0,
        fence=claim.fence,
        turns_seen=len(snapshot.user_turns),
        cost_nanos=0,
        started_at=now,
        ended_at=now,
    )


def _call_of(run: Run) -> ToolCall:
    options = run.options["question"]["options"]
    arguments = {"question": run.child_spec.instruction, **({"options": options} if options else {})}
    return ToolCall("question", ASK_USER, json.dumps(arguments))


def _outcome(execution: ExecutionView) -> End:
    if execution.status is ExecutionStatus.COMPLETED:
        return End(RunStatus.COMPLETED, answer=json.loads(execution.output or "{}").get("answer", ""))
    if tools.list_questions_of([execution.id]):
        return _UNANSWERED
    return End(RunStatus.FAILED, "question_refused", f"The question was not asked. {execution.error}")
