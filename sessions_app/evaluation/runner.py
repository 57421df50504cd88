"""Runs of the cases of an evaluation: durable runs in sessions of their own, by the workers of the installation."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app.models import Agent
from agents_app.types import RunOptions, RunStatus, RunTranscript, WaitingOn
from audit_app.kernel import context
from audit_app.kernel.errors import AppError
from sessions_app.evaluation.cases import Case
from sessions_app.evaluation.checks import Outcome
from sessions_app.models import Session
from sessions_app.services import (
    NewMessage,
    ReceiveOptions,
    cancel_session_runs,
    delete_session,
    limit_session,
    open_session,
    receive,
)

METADATA = "evaluation"  # key of Session.metadata
_LOOK_SECONDS = 0.1
# No user's: runs of an evaluation neither read nor write what agents remember about people.
ACTOR = "system"
_UNCLAIMED = "no worker has taken the run: is the installation running?"


@dataclass(frozen=True)
class Evaluation:
    """An evaluation.

    version: version of the agent, None for the published one.

    may_change: tools may change something.
    keeps: the sessions stay.
    parallel: cases at the same time.
    seconds: for one answer.
    """

    agent: Agent
    owner: User
    version: int | None = None
    may_change: bool = False
    keeps: bool = False
    parallel: int = 4
    seconds: float = 300.0


def run_cases(
    evaluation: Evaluation, cases: Sequence[Case], on_done: Callable[[Case, Outcome], None] = lambda case, outcome: None
) -> list[Outcome]:
    """Return the outcome of each case. on_done: called as soon as one is there."""
    waiting, active, outcomes = deque(cases), list[_Attempt](), dict[str, Outcome]()
    with context.bind(actor=ACTOR):
        while waiting or active:
            while waiting and len(active) < evaluation.parallel:
                active.append(_Attempt(evaluation, waiting.popleft()))
            for attempt in list(active):
                if outcome := attempt.look():
                    active.remove(attempt)
                    outcomes[attempt.case.name] = outcome
                    on_done(attempt.case, outcome)
            if active:
                time.sleep(_LOOK_SECONDS)
    return [outcomes[case.name] for case in cases]


class _Attempt:
    """One case in progress."""

    def __init__(self, evaluation: Evaluation, case: Case) -> None:
        self.case = case
        self._evaluation = evaluation
        self._session: Session | None = None
        self._left = deque(case.messages)
        self._run: UUID | None = None
        self._outcome = Outcome("")
        self._deadline = 0.0

    def look(self) -> Outcome | None:
        """Send the next message if the one before is answered. Return the outcome at the end."""
        try:
            if self._run is not None:
                transcript = agents.get_transcript(self._run)
                if not transcript.run.status.is_terminal:
                    reason = self._reason_to_stop(transcript)
                    return self._end(reason) if reason else None
                self._add(transcript)
                if transcript.run.status is not RunStatus.COMPLETED:
                    reason = transcript.run.error_message or transcript.run.error_code
                    return self._end(f"the run {transcript.run.status.value}: {reason}")
            if not self._left:
                return self._end("")
            self._send(self._left.popleft())
        except AppError as error:
            return self._end(error.message)
        return None

    def _send(self, text: str) -> None:
        evaluation = self._evaluation
        if self._session is None:
            title = f"Evaluation: {self.case.name}"[:200]
            agent_id, metadata = evaluation.agent.agent_id, {METADATA: self.case.name}
            session = open_session(owner=evaluation.owner, agent_id=agent_id, title=title, metadata=metadata)
            self._session = limit_session(session, is_readonly=not evaluation.may_change, denied=())
        options = ReceiveOptions(run=RunOptions(agent_version=evaluation.version), may_answer=False)
        message = NewMessage.into(self._session, text)
        self._run = receive(message, owner=evaluation.owner, session=self._session, options=options).run_id
        self._deadline = time.monotonic() + evaluation.seconds

    def _reason_to_stop(self, transcript: RunTranscript) -> str:
        run = transcript.run
        if run.waiting_on in (WaitingOn.APPROVAL, WaitingOn.INPUT):
            return f"the run waits for {'an approval' if run.waiting_on is WaitingOn.APPROVAL else 'an answer'}"
        if time.monotonic() < self._deadline:
            return ""
        if run.started_at is None:
            return _UNCLAIMED
        return f"there is no answer after {self._evaluation.seconds:g} seconds"

    def _add(self, transcript: RunTranscript) -> None:
        used, sofar = agents.get_cost(transcript.run.id), self._outcome
        cost = sofar.cost if used.cost is None else (sofar.cost or 0.0) + used.cost
        self._outcome = Outcome(
            transcript.answer,
            tools=(*sofar.tools, *(execution.tool for execution in transcript.executions)),
            usage=sofar.usage + used.usage,
            cost=cost,
            seconds=sofar.seconds + (used.seconds or 0.0),
        )

    def _end(self, failure: str) -> Outcome:
        if self._session is not None:
            if failure:
                cancel_session_runs(self._session, reason="The evaluation has stopped it.")
            if not self._evaluation.keeps:
                delete_session(self._session)
        return replace(self._outcome, failure=failure)
