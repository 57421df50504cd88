"""Compaction of a claimed run's conversation: the request for a summary, and recording it in one transaction."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from django.conf import settings
from django.db import transaction

from agents_app import conversation_port, events, selectors
from agents_app.models import ModelProvider, Step
from agents_app.prompt import compaction, context_size, tokens, tool_output_markers
from agents_app.prompt.compaction import Plan
from agents_app.providers import registry
from agents_app.runs import claims, preparation, writes
from agents_app.runs.claims import Claim
from agents_app.runs.model_call import chunks_of
from agents_app.runs.next_step import Compact
from agents_app.runs.preparation import Preparation
from agents_app.runs.run_events import event_of
from agents_app.runs.writes import Recorded, Spent
from agents_app.types import ModelChunk, ModelRequest, ModelResponse, RunOptions, Snapshot
from agents_app.types.context import Compaction
from audit_app.event_types import NewEvent
from audit_app.kernel.errors import AppError


def begin(claim: Claim, snapshot: Snapshot, step: Compact) -> Preparation:
    """Return the call for a summary of the conversation before the run. It is not retried."""
    limits, run = snapshot.limits, claim.run
    plan = compaction.plan(claim.history, snapshot, step.reason)
    messages = compaction.request_messages(
        plan,
        sign=tool_output_markers.sign_of(settings.SECRET_KEY, run.conversation_id),
        budget_tokens=context_size.estimated_budget(snapshot),
        family=snapshot.context.family,
    )
    request = ModelRequest(
        model=claim.model,
        messages=messages,
        total_seconds=limits.call_seconds,
        idle_seconds=limits.idle_seconds,
        options=RunOptions(max_output_tokens=limits.answer_tokens),
    )
    return Preparation(_summarise(claim.provider, request), partial(_record, claim, snapshot, plan))


async def _summarise(row: ModelProvider, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    async with aclosing(chunks_of(await registry.opened(row), request)) as chunks:
        async for chunk in chunks:
            yield chunk


def _record(
    claim: Claim, snapshot: Snapshot, plan: Plan, response: ModelResponse, spent: Spent, error: AppError | None
) -> tuple[Claim, Snapshot | None]:
    """Record a response as a compaction.

    A failed one is recorded too, so that it is not repeated for ever: the oldest messages are left out of the requests
    instead. error: the reason why there is no response.
    """
    run = claim.run
    failure = error.message if error else compaction.failure_of(plan, response, snapshot.context.family)
    response = replace(response, text="" if failure else response.text.strip(), tool_calls=())
    with transaction.atomic():
        writes.record_step(claim, snapshot, Recorded(-1 - snapshot.preparations, Step.COMPACT), response, spent)
        if failure:
            payload: events.CompactionFailed = {"reason": plan.reason, "message": failure}
            new_event = event_of(run, events.COMPACTION_FAILED, payload)
        else:
            new_event = _store(claim, snapshot, plan, response)
        history = claim.history if failure else claims.earlier_messages(run)
        size = claims.size_of(run, history, claim.tools, model=claim.model)
        following = replace(
            preparation.following(claim, snapshot, spent),
            context=replace(size, ratio=snapshot.context.ratio),
            compactions=snapshot.compactions + 1,
        )
        claim = replace(claim, history=history)
        return claim, writes.decide_and_apply(claim, following, new_events=[new_event])


def _store(claim: Claim, snapshot: Snapshot, plan: Plan, response: ModelResponse) -> NewEvent:
    """Store the summary. Return the event for the caller to emit."""
    run, summary, context = claim.run, response.text, snapshot.context
    size = round(tokens.count(summary, context.family) * context.ratio)
    stored = Compaction(
        index=snapshot.preparations,
        reason=plan.reason,
        ordinal=plan.ordinal,
        turns=len(plan.covered),
        summary=summary,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_kept + size,
        model=claim.model,
    )
    conversation_port.get().store_compaction(selectors.run_view(run), stored)
    payload: events.SessionCompacted = {
        "reason": plan.reason,
        "turns": stored.turns,
        "tokens_before": stored.tokens_before,
        "tokens_after": stored.tokens_after,
    }
    return event_of(run, events.SESSION_COMPACTED, payload)
