"""The step of a run that executes a network: tasks become child runs, until the scheduler ends it.

The state of the network is read from the rows of the child runs each time, and decided by `networks.scheduler`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import hot_queries, selectors, structured_output
from agents_app.errors import Fenced
from agents_app.models import Run
from agents_app.networks import yaml_format
from agents_app.networks.definition import Network, Task
from agents_app.networks.outcomes import Attempt, AttemptKey, AttemptStatus, Call, Decision, Start
from agents_app.networks.references import as_text
from agents_app.networks.scheduler import decide
from agents_app.runs import child_messages, children, transitions
from agents_app.runs.children import NewChild
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import CANCELLED, End
from agents_app.types import Message, RunOptions, RunStatus, WaitingOn
from agents_app.types.child_runs import MOST_DEADLINE_SECONDS, ChildSpec, RunKind
from audit_app.kernel.errors import AppError
from audit_app.kernel.ids import derived_id
from tools_app.policy.scope import Scope, ScopeMode

# While a person is waited for, what is left of the limit stays the same, however often it is looked at.
_LEAST_PAUSE = timedelta(seconds=1)
_NO_RESULT = "The network ended without a result."
_STATUSES = {
    RunStatus.COMPLETED.value: AttemptStatus.SUCCEEDED,
    RunStatus.FAILED.value: AttemptStatus.FAILED,
    RunStatus.TIMED_OUT.value: AttemptStatus.FAILED,
    RunStatus.CANCELLED.value: AttemptStatus.CANCELLED,
}

read = lru_cache(maxsize=64)(yaml_format.load)


def executes(run: Run) -> bool:
    """Return whether a run executes a network instead of calling a model."""
    return bool(run.options.get("network"))


def advance(claim: Claim) -> None:
    """Start the tasks that are ready, then park the run until one ends, or end it. Owns its transaction.

    Raises Fenced if another process has claimed the run.
    """
    try:
        _advance(claim)
    except AppError as error:  # such as an agent that was stopped or retired meanwhile
        with transaction.atomic():
            if not transitions.end(claim.run, End(RunStatus.FAILED, error.code, error.message), held_by=claim.owner):
                raise Fenced from None


def _advance(claim: Claim) -> None:
    network = read(claim.run.options["network"]["definition"])
    turns = claim.snapshot.user_turns
    message, instructions = message_of(claim.run, turns), _instructions(turns)
    with transaction.atomic():
        row = children.lock_in_tree(claim.run.pk)
        if (row.owner, row.fence) != (claim.owner, claim.fence):
            raise Fenced
        child_messages.collect(row.pk)  # what ends from now on makes the run claimable again
        rows = tasks_of(row)
        decision = decide_on(row, message, rows)
        if outcome := _outcome(row, network, decision):
            child_messages.collect(row.pk)
            if not transitions.end(row, outcome, held_by=claim.owner, **transitions.NO_CRASHES):
                raise Fenced
            return
        for start in () if row.is_paused else decision.starts:
            _start(row, network, start, instructions)
        _cancel([child for child in rows if child.workstream in set(map(str, decision.cancels))])
        _park(claim, row, network, is_idle=row.is_paused and all(child.ended_at for child in rows))


def _instructions(user_turns: Sequence[Message]) -> list[str]:
    """Return what was written to the run since its call: it goes to the tasks that start from now on."""
    return [turn.content for turn in user_turns if not (turn.is_report or turn.is_final)][1:]


def _park(claim: Claim, row: Run, network: Network, *, is_idle: bool) -> None:
    """Park the run until a task ends. is_idle: it is paused and no task works, so it waits for its parent."""
    if until := _ends_at(row, network):
        until = max(until, timezone.now() + _LEAST_PAUSE)
    parked: dict[str, Any] = {
        "owner": None,
        "waiting_on": WaitingOn.CHILDREN.value,
        "ready_at": until,
        **transitions.NO_CRASHES,
    }
    if is_idle:
        parked |= {"waiting_on": WaitingOn.PARENT.value, **child_messages.waiting_columns(row, None)}
        transitions.nudge_listener(hot_queries.FIND_LISTENER.rows(run_id=row.pk))
    if not transitions.move(row, RunStatus.WAITING, held_by=claim.owner, **parked):
        raise Fenced


def message_of(run: Run, user_turns: Sequence[Message]) -> str:
    """Return the message with which a run calls its network; a retry has that of the run that it retries."""
    retried: Run | None = run
    while retried:
        if own := [turn.content for turn in user_turns if not turn.is_report]:
            return own[0]
        retry_of = retried.options.get("retry_of")
        retried = Run.objects.filter(pk=retry_of).first() if retry_of else None
        user_turns = child_messages.user_turns_of(retried) if retried else ()
    return ""


def deadline_of(time_limit: float | None) -> int:
    """Return the deadline in seconds of a child run for the time limit of a network or of a task."""
    return max(1, round(min(time_limit or MOST_DEADLINE_SECONDS, MOST_DEADLINE_SECONDS)))


def tasks_of(run: Run) -> list[Run]:
    """Return the child runs of a network's tasks, each with its agent, oldest first."""
    rows = Run.objects.select_related("agent").filter(parent_id=run.pk, kind=RunKind.TASK.value)
    return list(rows.order_by("created_at", "id"))


def decide_on(run: Run, message: str, rows: list[Run]) -> Decision:
    """Return the decision of the scheduler about a run of a network with these child runs."""
    stored = run.options["network"]
    return decide(read(stored["definition"]), Call(message, stored["context"]), map(_attempt, rows))


def _attempt(child: Run) -> Attempt:
    status = _STATUSES.get(child.status, AttemptStatus.RUNNING)
    output: Any = None
    if status is AttemptStatus.SUCCEEDED:
        output = structured_output.value_of(child.answer) if child.output_schema is not None else child.answer
    return Attempt(AttemptKey.parse(child.workstream), status, child.answer, output, child.error_message)


def _outcome(run: Run, network: Network, decision: Decision) -> End | None:
    """Return the end of the run, None if it continues."""
    if run.cancel_requested_at or run.terminated_at:
        return CANCELLED
    if decision.ending and decision.ending.failed:
        return End(RunStatus.FAILED, "network_failed", decision.ending.error)
    if decision.ending:
        return End(RunStatus.COMPLETED, answer=as_text(decision.ending.output) or _NO_RESULT)
    if (until := _ends_at(run, network)) and timezone.now() >= until:
        text = f"The network ran for {network.time_limit:g} seconds, which is its limit."
        return End(RunStatus.TIMED_OUT, "time_limit", text)
    return None


def _ends_at(run: Run, network: Network) -> datetime | None:
    """Return the time at which a network that a person has started reaches its limit; None without one.

    The limit stands still while a task waits for a person, as the deadline of a child run does. That of a network which
    an agent has started is such a deadline.
    """
    if not network.time_limit or run.started_at is None or run.parent_id:
        return None
    return run.started_at + timedelta(seconds=network.time_limit + child_messages.held_seconds_of(run))


def _start(run: Run, network: Network, start: Start, instructions: Sequence[str]) -> None:
    """Start an attempt. instructions: for agents; a question to a person stays as it is."""
    task = network.flat()[start.key.task]
    prompt = "\n\n".join((start.prompt, *(instructions if task.has_agent else ())))
    child = children.start_below(
        run,
        NewChild(
            id=derived_id(run.pk, str(start.key)),
            parent_id=run.pk,
            workstream=str(start.key),
            spec=ChildSpec(str(start.key), prompt, deadline_seconds=deadline_of(task.time_limit)),
            agent=selectors.get_agent(task.agent) if task.has_agent else None,
            kind=RunKind.TASK,
            options=_options_of(task, network),
        ),
    )
    if start.delay_seconds:
        _delay(child, timedelta(seconds=start.delay_seconds))


def _options_of(task: Task, network: Network) -> RunOptions:
    if task.ask is not None:
        return RunOptions(question={"options": [*task.options], "timeout": task.timeout})
    return RunOptions(
        model=task.model or network.model,
        tools=_first(task.tools, network.tools),
        mcp_servers=_first(task.mcp_servers, network.mcp_servers),
        output_schema=task.answer_schema,
    )


def _delay(child: Run, pause: timedelta) -> None:
    """Let a try begin after a pause, and its time limit with it."""
    untouched = Run.objects.filter(pk=child.pk, status=RunStatus.QUEUED.value, owner=None, fence=0)
    untouched.update(ready_at=Now() + pause, deadline_at=F("deadline_at") + pause, alarm_at=F("alarm_at") + pause)


def _cancel(rows: list[Run]) -> None:
    """Cancel child runs; those that have an owner are ended by it within a second."""
    for row in (
        Run.objects.select_for_update(of=("self",), no_key=True)
        .select_related("agent")
        .filter(pk__in=[one.pk for one in rows])
    ):
        if row.owner is None and not row.ended_at:
            transitions.end(row, CANCELLED, held_by=None)
        else:
            Run.objects.filter(pk=row.pk, ended_at=None).update(cancel_requested_at=Now())


def _first(*scopes: Scope) -> Scope:
    """Return the first scope that does not inherit."""
    return next((scope for scope in scopes if scope.mode is not ScopeMode.INHERIT), scopes[-1])
