"""The claim of a run, and the parts of it that need more than a row. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.conf import settings

from agents_app import conversation_port, hot_queries, selectors
from agents_app.configuration.agent_versions import use_version
from agents_app.models import ModelProvider, Run
from agents_app.prompt import context_size, offered_tools, system_prompt, tokens, tool_output_markers
from agents_app.prompt.offered_tools import OfferedTools
from agents_app.prompt.run_messages import own_messages
from agents_app.prompt.system_prompt import PromptPart, ToolNotes
from agents_app.runs import child_messages
from agents_app.runs.run_policy import client_tools_of, limits_of, model_of, policy_of, session_policy_of
from agents_app.types import Message, RunOptions, Snapshot
from agents_app.types.child_runs import AGENTS_TOOL
from agents_app.types.context import ContextSize
from agents_app.types.prices import PriceList
from tools_app import profiles
from tools_app import selectors as tool_rows
from tools_app import services as tools
from tools_app.catalogue import NO_FLAGS
from tools_app.types import ToolSpec

_MOST_CHARACTERS_PER_TOKEN = 8  # of whole conversations: what is longer cannot fit
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Claim:
    """A process's claim of a run, with everything it needs to continue.

    run: the row as claimed; its `fence` is the number of this claim
    history: the conversation before this run's own steps
    provider: provider of the model; that of a fallback, if the run uses one
    tools: the tools that the run may use
    resumes: an earlier claim may have begun a step without recording it
    """

    run: Run
    owner: UUID
    snapshot: Snapshot
    history: tuple[Message, ...]
    provider: ModelProvider
    prices: PriceList
    tools: OfferedTools
    resumes: bool

    @property
    def fence(self) -> int:
        return self.run.fence

    @property
    def model(self) -> str:
        return model_of(self.run, self.provider)


class HeldBack(Exception):
    """A run cannot be claimed, because its user has as many running runs as one may have."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor)
        self.actor = actor


@dataclass(frozen=True)
class Candidate:
    """A claimable run, with its agent and provider.

    running: number of running runs of its user.
    flags: those of `hot_queries.CLAIM_FLAGS`.
    """

    run: Run
    running: int
    flags: Mapping[str, bool]

    @classmethod
    def of(cls, row: Run | None) -> "Candidate | None":
        """Return the candidate of a row that was read as one."""
        if row is None:
            return None
        read = vars(row)
        return cls(row, read["running_of_user"] or 0, {name: read[name] for name in hot_queries.CLAIM_FLAGS})

    @property
    def is_held_back(self) -> bool:
        return self.running >= most_running()


def most_running() -> int:
    """Return the number of runs of one user that may run at once.

    Claims of one user's runs at the same moment, by several connections, exceed it by one run each at most.
    """
    return int(settings.KOMAND_MAX_RUNNING_PER_USER) or _NO_LIMIT


def find_claimable(run_id: UUID) -> Candidate | None:
    """Return the run if it is claimable."""
    return Candidate.of(hot_queries.FIND_CLAIMABLE.first(run_id=run_id))


def user_turns_of(run: Run) -> tuple[Message, ...]:
    """Return the user turns of a run and the messages to it, in the order in which they came."""
    if run.is_in_tree:
        return child_messages.user_turns_of(run)
    return tuple(conversation_port.get().user_turns(run.id))


def earlier_messages(run: Run) -> tuple[Message, ...]:
    """Read the conversation before a run, as far as its agent's context can take it. A child run has that of a fork."""
    if run.parent_id:
        fork_step = run.child_spec.fork_step
        return () if fork_step is None else _forked_messages(run.parent_id, fork_step)
    return tuple(conversation_port.get().history(run.conversation_id, run.ordinal, longest=_longest(run)))


def _forked_messages(parent_id: UUID, fork_step: int) -> tuple[Message, ...]:
    """Return the conversation of a parent before one of its steps, without what belongs to its model alone."""
    [stored] = hot_queries.GET_RUN.fetch(run_id=parent_id)
    parent = use_version(stored)
    steps, executions = selectors.list_steps(parent.pk), tool_rows.list_executions(parent.pk)
    seen = next((step.turns_seen for step in steps if step.index == fork_step), 0)
    before = Snapshot(
        user_turns=user_turns_of(parent)[:seen],
        steps=tuple(step for step in steps if step.index < fork_step),
        executions=tuple(execution for execution in executions if execution.step < fork_step),
        limits=limits_of(parent),
        output_schema=parent.output_schema,
    )
    own = (replace(message, reasoning="", dialect_state=None) for message in own_messages(before))
    return (*earlier_messages(parent), *own)


def _longest(run: Run) -> int:
    return run.agent.max_context_tokens * _MOST_CHARACTERS_PER_TOKEN


def messages_of(run: Run) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return `earlier_messages` and `user_turns_of` of a run, read together if it is open and in no tree."""
    if run.is_in_tree or run.ended_at:
        return earlier_messages(run), user_turns_of(run)
    return conversation_port.get().messages(run.id, run.conversation_id, run.ordinal, longest=_longest(run))


def with_requests(run: Run, recorded: Snapshot) -> Snapshot:
    """Return a snapshot with what others have asked of a run in no tree: new user turns, and a cancellation.

    recorded: with the last step. The run's row is locked.
    """
    [(turn_count, cancel_requested_at)] = hot_queries.GET_REQUESTS.rows(run_id=run.id)
    is_same = turn_count == recorded.steps[-1].turns_seen
    turns = recorded.user_turns if is_same else tuple(conversation_port.get().user_turns(run.id))
    return replace(recorded, user_turns=turns, cancel_requested=cancel_requested_at is not None)


def size_of(run: Run, history: Sequence[Message], offered: OfferedTools, *, model: str) -> ContextSize:
    """Return the size of what a run's requests contain besides its own messages.

    The last report of the server corrects it where it matters: it is read once a quarter of the context is used.
    """
    system = system_prompt.system_message(system_parts_of(run, offered))
    listed = offered.listed_with(offered_tools.used_names(history, ()))
    size = context_size.measure(system, history, listed, model=model)
    if run.parent_id:
        size = replace(size, turns=0)  # its parent's conversation is not its own to compact
    if 4 * (size.fixed + size.history) < limits_of(run).context_tokens:
        return size
    return replace(size, ratio=tokens.ratio_of(*selectors.last_usage(run.conversation_id, model)))


def system_parts_of(run: Run, tools: OfferedTools) -> tuple[PromptPart, ...]:
    """Return the parts of the system message, which are the same in all calls of a run within a day."""
    instructions = RunOptions.from_dict(run.options).instructions
    parts = system_prompt.system_parts(
        run.agent.name,
        run.agent.system_prompt,
        template=run.agent.template_parts,
        tools=ToolNotes.of(tools.listed, tools.all),
        sign=tool_output_markers.sign_of(settings.SECRET_KEY, run.conversation_id),
    )
    return (*parts, PromptPart("instructions of the message", instructions)) if instructions else parts


def tools_of_run(run: Run, flags: Mapping[str, bool] = NO_FLAGS) -> OfferedTools:
    """Return the tools that the run may use by its present policy.

    run: with its agent.
    flags: those of its claim.
    """
    profile, permitted = run.agent.tool_profile, tools.specs_for(policy_of(run), session_policy_of(run), flags=flags)
    absent = () if run.agent.workstream_agents else (AGENTS_TOOL,)
    offered = [spec for spec in permitted if profiles.is_offered(profile, spec.name) and spec.name not in absent]
    chosen = offered_tools.choose(offered, profile=profile, budget_tokens=settings.KOMAND_TOOL_TOKENS)
    clients = client_tools_of(run)
    return chosen.adding(tool.spec for tool in clients) if clients else chosen


def list_hidden(run_id: UUID) -> Sequence[ToolSpec]:
    """Return the tools that the run may use and has to find; none if it was deleted."""
    run = Run.objects.select_related("agent").filter(pk=run_id).first()
    return tools_of_run(use_version(run)).hidden if run else ()
