"""The use of a conversation's context, for users. Reads only."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from agents_app import selectors
from agents_app.configuration.prompt_templates import use_template
from agents_app.models import Agent, Run
from agents_app.prompt import context_size, tokens
from agents_app.runs import claims
from agents_app.runs.run_policy import limits_of, model_of, provider_of
from agents_app.types import Message, RunOptions
from audit_app.kernel.errors import InvalidInput


@dataclass(frozen=True)
class ContextUsage:
    """Estimated tokens of what the next message's request will contain, by parts, without the message itself.

    limit: the agent's context.
    budget: the part of it that a request may have, the rest is left to the answer.
    newest: tokens of the messages of the last run.
    is_calibrated: a report of the model's server corrects the estimates.
    """

    limit: int
    budget: int
    system: int
    tools: int
    summary: int
    pinned: int
    history: int
    newest: int
    is_calibrated: bool

    @property
    def used(self) -> int:
        return self.system + self.tools + self.summary + self.pinned + self.history + self.newest

    @property
    def percent(self) -> int:
        """Return the used part of the budget, in percent, at most 100."""
        return min(100, round(100 * self.used / max(1, self.budget)))


def context_usage(
    agent: Agent,
    conversation_id: UUID,
    ordinal: int,
    *,
    options: RunOptions | None = None,
    messages: Sequence[Message] = (),
) -> ContextUsage:
    """Return the use of the context by a conversation of the agent before the run of that ordinal.

    options: those of the run.
    messages: further ones, after the stored conversation.
    """
    run = Run(
        conversation_id=conversation_id, ordinal=ordinal, agent=agent, options=options.to_dict() if options else {}
    )
    with contextlib.suppress(InvalidInput):  # the run itself will fail with it
        run = use_template(run)
    earlier = (*claims.earlier_messages(run), *messages)
    model, limits = model_of(run, provider_of(run)), limits_of(run)
    size = claims.size_of(run, earlier, claims.tools_of_run(run), model=model)
    reported = selectors.last_usage(conversation_id, model)
    ratio = tokens.ratio_of(*reported)
    last = max((message.ordinal or 0 for message in earlier if not message.is_pinned), default=0)
    newest = [message for message in earlier if message.ordinal == last and not message.is_pinned]
    newest_tokens = tokens.count_messages(newest, size.family)
    return ContextUsage(
        limit=limits.context_tokens,
        budget=context_size.input_budget(limits),
        system=round(size.system * ratio),
        tools=round(size.tools * ratio),
        summary=round(size.summary * ratio),
        pinned=round(size.pinned * ratio),
        history=round((size.history - newest_tokens) * ratio),
        newest=round(newest_tokens * ratio),
        is_calibrated=reported != (0, 0),
    )
