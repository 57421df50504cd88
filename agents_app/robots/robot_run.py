"""One run of a robot: the loop of `next_step` in this process, on a snapshot that is kept in memory alone."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings

from agents_app import structured_output
from agents_app.costs import cost_budget
from agents_app.prompt import context_size, history, system_prompt, tool_output_markers
from agents_app.prompt.run_messages import own_messages
from agents_app.prompt.system_prompt import ToolNotes
from agents_app.providers.base import ProviderError
from agents_app.robots import robot_budget
from agents_app.robots.conversions import typed
from agents_app.robots.failures import ApprovalNeeded, InputNeeded, RobotError, failure_of
from agents_app.robots.messages import Role, TextMessage
from agents_app.robots.results import RobotResult, reply_text, tool_results
from agents_app.robots.robot_budget import Ledger
from agents_app.robots.robot_hooks import Hook, HookContext, hooked
from agents_app.robots.robot_options import RobotOptions
from agents_app.robots.robot_setup import Setup
from agents_app.runs.live_text import NoLiveText
from agents_app.runs.model_call import Interrupted, ModelCall, chunks_of
from agents_app.runs.next_step import Act, End, Think, at_limit, next_step
from agents_app.runs.retry_policy import retry_delay
from agents_app.types import REJECTED, Message, ModelRequest, ModelResponse, RunStatus, Snapshot, StepView, Usage
from agents_app.types.context import ContextOverflow
from audit_app.kernel.database import in_db
from audit_app.kernel.futures import cancel_all
from tools_app.executions.in_process import PlannedCall, Readings, Toolbox, in_thread
from tools_app.policy import emergency_stop
from tools_app.types import ExecutionView, ToolSpec
from tools_app.types.questions import NO_ANSWER, text_of

logger = logging.getLogger(__name__)

_MOST_CALLS_AT_ONCE = 8
_DENIED = "This call was denied by a person. Do not repeat it."


@dataclass
class Conversation:
    """The state of a robot between its runs. id: for the sign of its tool results."""

    id: UUID
    messages: tuple[Message, ...] = ()
    readings: Readings = field(default_factory=Readings)


class _Live(NoLiveText):
    """Passes the text of a model call on to the callbacks."""

    def __init__(self, options: RobotOptions) -> None:
        self._options = options

    def add(self, text: str) -> None:
        if self._options.on_content and text:
            self._options.on_content(text)

    def add_reasoning(self, text: str) -> None:
        if self._options.on_reasoning and text:
            self._options.on_reasoning(text)


class RobotRun:
    """One run.

    robot: for hooks.
    session: its state, whose messages only a completed run changes.
    """

    def __init__(
        self, robot: Any, setup: Setup, session: Conversation, ledger: Ledger, toolbox: Toolbox, hooks: Sequence[Hook]
    ) -> None:
        self._robot, self._setup, self._session, self._ledger = robot, setup, session, ledger
        self._options: RobotOptions = robot.options
        self._toolbox, self._hooks = toolbox, hooks
        self._specs: tuple[ToolSpec, ...] = ()
        self._system = Message("system", "")
        self._began = time.monotonic()
        self._active = 0.0
        self._last = ModelResponse()

    async def execute(self, text: str) -> RobotResult:
        """Return the answer to a message. Raises RobotError."""
        setup = self._setup
        self._specs = await in_db(self._toolbox.list_specs)
        sign = tool_output_markers.sign_of(settings.SECRET_KEY, self._session.id)
        parts = system_prompt.system_parts(
            setup.name,
            setup.system_prompt,
            template=setup.template,
            tools=ToolNotes.of(self._specs, self._specs),
            sign=sign,
        )
        self._system = system_prompt.system_message(parts)
        size = context_size.measure(self._system, self._session.messages, self._specs, model=setup.model)
        snapshot = Snapshot(
            user_turns=(Message("user", text),),
            steps=(),
            executions=(),
            limits=setup.limits,
            output_schema=setup.options.output_schema,
            context=replace(size, turns=0),  # nothing is summarised: the oldest messages are left out
        )
        snapshot, end = await self._loop(snapshot, sign)
        result = self._result(snapshot, end.answer)
        if end.status is not RunStatus.COMPLETED:
            raise failure_of(end.code, end.message, result)
        self._remember(snapshot)
        return result

    async def _loop(self, snapshot: Snapshot, sign: str) -> tuple[Snapshot, End]:
        while True:
            stopped, refusal = await in_db(self._refusals)
            snapshot = replace(snapshot, active_seconds=self._active, stopped=stopped, budget_refusal=refusal)
            step = next_step(snapshot)
            if isinstance(step, Think):
                following = await self._think(snapshot, step, sign)
            elif isinstance(step, Act):
                following = await self._act(snapshot, step)
            elif isinstance(step, End):
                return snapshot, step
            else:  # in memory no call is open between two decisions, and nothing is compacted
                raise RuntimeError(f"unexpected step {step}")
            if isinstance(following, End):
                return snapshot, following
            snapshot = following

    def _refusals(self) -> tuple[str, str]:
        """Return why the emergency stop, and a budget or cap of the agent, forbid another model call."""
        agent = self._setup.agent
        refusal = cost_budget.budget_refusal(agent, self._options.actor) if agent else ""
        return emergency_stop.why_stopped(self._setup.policy.agent_id), refusal

    async def _think(self, snapshot: Snapshot, step: Think, sign: str) -> Snapshot | End:
        """Call the model for a step, again after failures that may pass."""
        tries = 0
        while True:
            reserved = robot_budget.reserve(
                self._ledger,
                self._options.budget,
                self._setup.prices.find(self._setup.model),
                input_tokens=context_size.sent_tokens(snapshot),
                wanted=self._setup.options.max_output_tokens,
            )
            if isinstance(reserved, str):
                return next_end(replace(snapshot, budget_refusal=reserved))
            request = self._request(snapshot, step, sign, reserved.output)
            usage, text, began = Usage(), "", time.monotonic()
            try:
                outcome = await self._call(request, snapshot)
                text = outcome.text
                usage = outcome.usage if isinstance(outcome, ModelResponse) else usage
                break
            except ProviderError as error:
                usage, tries = error.usage, tries + 1
                if error.code == "model_context_overflow":
                    overflow = ContextOverflow(
                        error.limit_tokens, error.request_tokens, error.message, snapshot.overflow is not None
                    )
                    return context_size.after_overflow(snapshot, overflow)
                delay = retry_delay(
                    snapshot.limits, tries, retryable=error.retryable, retry_after_seconds=error.retry_after_seconds
                )
                if delay is None:
                    raise failure_of(error.code, error.message, self._result(snapshot, "")) from error
                logger.warning("model call of robot %s failed (%s), retrying", self._setup.name, error.code)
            finally:
                self._active += time.monotonic() - began
                price = self._setup.prices.find(self._setup.model)
                robot_budget.settle(self._ledger, self._options.budget, reserved, usage, price, text=text)
            await asyncio.sleep(delay)
        if isinstance(outcome, Interrupted):
            return replace(_end_of(outcome, snapshot), answer=outcome.text)
        self._last = outcome
        return replace(snapshot, steps=(*snapshot.steps, _step(step.step, outcome)), overflow=None)

    async def _call(self, request: ModelRequest, snapshot: Snapshot) -> ModelResponse | Interrupted:
        context = HookContext(self._robot, request)
        async with hooked(self._hooks, "model_call", context):
            call = ModelCall(chunks_of(self._setup.provider, request), _Live(self._options))
            outcome = await call.run(seconds_left=max(0.0, snapshot.limits.active_seconds - self._active))
            if isinstance(outcome, ModelResponse):
                outcome = structured_output.judge(outcome, snapshot.output_schema)
            context.result = outcome
        return outcome

    def _request(self, snapshot: Snapshot, step: Think, sign: str, output: int | None) -> ModelRequest:
        setup, limits = self._setup, snapshot.limits
        messages: Sequence[Message] = history.pair([self._system, *self._session.messages, *own_messages(snapshot)])
        budget = context_size.estimated_budget(snapshot)
        if context_size.request_tokens(snapshot) > budget:
            context = snapshot.context
            messages = history.fit(messages, budget_tokens=budget - context.tools, family=context.family)
        return ModelRequest(
            model=setup.model,
            messages=history.merge(tool_output_markers.mark(messages, sign)),
            tools=self._specs,
            may_call_tools=step.may_call_tools,
            total_seconds=limits.call_seconds,
            idle_seconds=limits.idle_seconds,
            options=replace(setup.options, max_output_tokens=output),
        )

    async def _act(self, snapshot: Snapshot, step: Act) -> Snapshot:
        """Make the calls of a step. Those that a person has to decide are asked about first, one after the other."""
        planned = await in_db(self._toolbox.plan, step.calls, step.step)
        ended: dict[UUID, ExecutionView] = {}
        for call in planned:
            if call.asks or call.questions:
                if answered := await self._ask(call, snapshot):
                    ended[call.view.id] = answered
            elif call.view.status.is_terminal:
                ended[call.view.id] = call.view
        slots = asyncio.Semaphore(_MOST_CALLS_AT_ONCE)
        made = [asyncio.ensure_future(self._make(call, ended.get(call.view.id), slots)) for call in planned]
        try:
            views = await asyncio.gather(*made)
        finally:
            await cancel_all(made)
        return replace(snapshot, executions=(*snapshot.executions, *views))

    async def _ask(self, call: PlannedCall, snapshot: Snapshot) -> ExecutionView | None:
        """Return the ended call if a person has denied or answered it, None if it may be made."""
        partial = self._result(snapshot, "")
        if call.questions:
            if self._options.on_question is None:
                message = f"{call.view.tool} asks: {text_of(call.questions)} Give the robot an `on_question`."
                raise InputNeeded(message, result=partial)
            answers = [str(await in_thread(self._options.on_question, question)) for question in call.questions]
            lines = answers if len(answers) == 1 else [" ".join(answer.split()) or NO_ANSWER for answer in answers]
            return self._toolbox.answer(call, "\n".join(lines))
        if self._options.on_approval is None or (call.asks and call.asks.needs_two):
            reason = call.asks.reason if call.asks else ""
            message = f"The call of {call.view.tool} needs approval: {reason} Give the robot an `on_approval`."
            raise ApprovalNeeded(message, result=partial)
        is_allowed = await in_thread(self._options.on_approval, call)
        return None if is_allowed is True else self._toolbox.deny(call, _DENIED)

    async def _make(self, call: PlannedCall, ended: ExecutionView | None, slots: asyncio.Semaphore) -> ExecutionView:
        async with slots:
            if self._options.on_tool_call:
                await in_thread(self._options.on_tool_call, call.view)
            context = HookContext(self._robot, call)
            async with hooked(self._hooks, "tool_call", context):
                if ended is not None:
                    context.result = ended
                elif context.result is None:
                    context.result = await self._toolbox.run(call)
                else:
                    context.result = self._toolbox.replaced(call, context.result)
            view: ExecutionView = context.result
            if self._options.on_tool_result:
                await in_thread(self._options.on_tool_result, view)
            return view

    def _result(self, snapshot: Snapshot, answer: str) -> RobotResult:
        texts = [TextMessage(Role.ASSISTANT, step.text) for step in snapshot.steps if step.text]
        text = reply_text(answer, self._last.reasoning if answer == self._last.text else "", texts)
        usage = self._last.usage
        return RobotResult(
            self._setup.name,
            (TextMessage(Role.ASSISTANT, text),) if text else (),
            tool_results(snapshot.executions),
            prompt=self._system.content,
            history=[message.to_dict() for message in typed([*self._session.messages, *own_messages(snapshot)])],
            stop_reason=self._last.finish_reason if snapshot.steps else None,
            duration=time.monotonic() - self._began,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )

    def _remember(self, snapshot: Snapshot) -> None:
        kept = replace(snapshot, steps=tuple(step for step in snapshot.steps if not step.rejected_text))
        new = (replace(message, reasoning="", dialect_state=None) for message in own_messages(kept))
        self._session.messages = (*self._session.messages, *new)


def next_end(snapshot: Snapshot) -> End:
    """Return the end that the state of a run demands."""
    step = next_step(snapshot)
    if not isinstance(step, End):
        raise RuntimeError(f"unexpected step {step}")
    return step


def _step(index: int, response: ModelResponse) -> StepView:
    is_rejected = response.finish_reason == REJECTED
    return StepView(
        index=index,
        text="" if is_rejected else response.text,
        tool_calls=response.tool_calls,
        finish_reason=response.finish_reason,
        reasoning=response.reasoning,
        usage=response.usage,
        rejected_text=response.text if is_rejected else "",
        dialect_state=response.dialect_state,
    )


def _end_of(outcome: Interrupted, snapshot: Snapshot) -> End:
    end = at_limit(outcome.why, snapshot, settings.KOMAND_MAX_ANSWER_CHARACTERS)
    if end is None:
        raise RobotError(f"The model call was stopped: {outcome.why}.", code=outcome.why)
    return end
