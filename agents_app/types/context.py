"""Frozen data of a run's limits, of the size of its conversation and of its compaction. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """An agent's limits for one message. active_seconds: time under lease, without tools, waiting and queueing.

    context_tokens: tokens of a request and its answer.
    answer_tokens: the part of them that is left to the answer.
    compact_percent: a longer request, in percent of the rest, is compacted first; 0 for never.
    compact_turns: so is one with more earlier messages.
    """

    tool_rounds: int = 10
    active_seconds: float = 120.0
    call_seconds: float = 300.0
    idle_seconds: float = 60.0
    tries: int = 2
    retry_first_seconds: float = 2.0
    retry_factor: float = 2.0
    retry_max_seconds: float = 30.0
    crashes: int = 3
    context_tokens: int = 100_000
    output_retries: int = 2
    answer_tokens: int = 4096
    compact_percent: int = 80
    compact_turns: int = 300


@dataclass(frozen=True)
class ContextSize:
    """Estimated tokens of what a run's requests contain besides its own messages.

    system, tools: of the prompt and of the offered tools.
    summary, pinned: of the messages that stay in front of the history.
    history: history of the other earlier messages.
    turns: their number.
    ratio: by which the server's counts exceed the estimates.
    """

    system: int = 0
    tools: int = 0
    summary: int = 0
    pinned: int = 0
    history: int = 0
    turns: int = 0
    family: str = "general"
    ratio: float = 1.0

    @property
    def fixed(self) -> int:
        """Return the tokens that neither compaction nor cutting reduces."""
        return self.system + self.tools + self.summary + self.pinned


@dataclass(frozen=True)
class ContextOverflow:
    """A refusal of the model's server: the request is longer than the model's context.

    limit_tokens, request_tokens: as far as the server states them.
    is_repeated: it came again, although less was sent.
    """

    limit_tokens: int | None = None
    request_tokens: int | None = None
    message: str = ""
    is_repeated: bool = False


@dataclass(frozen=True)
class Compaction:
    """A summary that stands for the earlier messages of a conversation in later requests.

    index: place among the calls that prepare its run, from 0.
    reason: threshold | overflow | asked.
    ordinal: ordinal of the last run whose messages it stands for.
    turns: number of these messages.
    tokens_before, tokens_after: estimates of the whole request.
    model: that wrote it.
    """

    index: int
    reason: str
    ordinal: int
    turns: int
    summary: str
    tokens_before: int
    tokens_after: int
    model: str
