"""Sizes of requests in estimated tokens, and when a conversation has to be compacted. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from agents_app.prompt import offered_tools, tokens
from agents_app.prompt.run_messages import own_messages
from agents_app.types import Limits, Message, Snapshot
from agents_app.types.context import ContextOverflow, ContextSize
from tools_app.types import ToolSpec

MOST_COMPACTIONS = 3  # of one run
_LEAST_SHARE_OF_REQUEST = 4  # the answer gets at most a quarter of the context
_CUT_SHARE = 0.75  # of a request that was refused, if the server does not state its limit


def measure(
    system: Message, earlier: Sequence[Message], tools: Sequence[ToolSpec], *, model: str, ratio: float = 1.0
) -> ContextSize:
    """Return the sizes of what the requests of a run contain besides its own messages.

    earlier: the messages before the run.
    ratio: as `tokens.ratio_of`.
    """
    family = tokens.family_of(model)
    parts = {"summary": 0, "pinned": 0, "history": 0}
    turns = 0
    for message in earlier:
        part = "summary" if message.is_summary else "pinned" if message.is_pinned else "history"
        parts[part] += tokens.count_message(message, family)
        turns += part == "history"
    return ContextSize(
        system=tokens.count_message(system, family),
        tools=sum(offered_tools.tokens_of(tool, family) for tool in tools),
        turns=turns,
        family=family,
        ratio=ratio,
        **parts,
    )


def own_tokens(snapshot: Snapshot) -> int:
    """Return the estimated tokens of the messages of the run itself."""
    return tokens.count_messages(own_messages(snapshot), snapshot.context.family)


def request_tokens(snapshot: Snapshot) -> int:
    """Return the estimated tokens of the next request if nothing is left out, before correction by the ratio."""
    return snapshot.context.fixed + snapshot.context.history + own_tokens(snapshot)


def input_budget(limits: Limits) -> int:
    """Return the tokens that a request may have: the context without the room for the answer."""
    return limits.context_tokens - min(limits.answer_tokens, limits.context_tokens // _LEAST_SHARE_OF_REQUEST)


def estimated_budget(snapshot: Snapshot) -> int:
    """Return `input_budget` in estimated tokens."""
    return int(input_budget(snapshot.limits) / snapshot.context.ratio)


def sent_tokens(snapshot: Snapshot) -> int:
    """Return the estimated tokens of the next request as it is sent: what does not fit is left out."""
    return min(request_tokens(snapshot), estimated_budget(snapshot))


def exceeds_threshold(snapshot: Snapshot) -> bool:
    """Return whether earlier messages should be compacted before the next model call."""
    limits, context = snapshot.limits, snapshot.context
    if not context.turns or not limits.compact_percent:
        return False
    if context.turns > limits.compact_turns:
        return True
    return request_tokens(snapshot) * context.ratio > input_budget(limits) * limits.compact_percent / 100


def after_overflow(snapshot: Snapshot, overflow: ContextOverflow) -> Snapshot:
    """Return the snapshot after a refused request. Less is sent from now on: the stated limit, or a part of this.

    If the server states the size of the request, estimates are corrected by it: of some texts they are far too low.
    """
    limits, context, sent = snapshot.limits, snapshot.context, sent_tokens(snapshot)
    limit = overflow.limit_tokens or int(sent * context.ratio * _CUT_SHARE)
    limits = replace(limits, context_tokens=max(1, min(limits.context_tokens, limit)))
    ratio = max(context.ratio, (overflow.request_tokens or 0) / max(1, sent))
    return replace(snapshot, overflow=overflow, limits=limits, context=replace(context, ratio=ratio))
