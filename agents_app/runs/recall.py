"""Recall: the memories that the requests of a run contain, chosen at its first claim."""

import logging
from dataclasses import asdict

from agents_app.models import Run, RunRecall
from agents_app.prompt import recalled_memories, tokens
from agents_app.prompt.recalled_memories import RecalledMemory
from agents_app.runs.claims import tools_of_run, user_turns_of
from agents_app.runs.run_policy import model_of, provider_of
from agents_app.types import RunOptions
from audit_app.kernel.database import is_away
from tools_app.storage import memories, memory_holders

logger = logging.getLogger(__name__)

_TOOL = "memory_recall"
_MOST = 20
_LEAST_SHARE_OF_CONTEXT = 10  # the memories get at most a tenth of the context


def find(run: Run) -> tuple[RecalledMemory, ...]:
    """Return the memories that the requests of a run are to contain. Reads only.

    run: with its agent, which has stored memories and has a budget for them.

    Only trusted memories of the run's actor (for a linked sender, of the user), and only if the run may call
    `memory_recall`. A failure is logged: an answer without memories is better than none.
    """
    try:
        return _find(run)
    except Exception as error:
        if is_away(error):
            raise
        logger.exception("recalling memories for run %s failed", run.id)
        return ()


def _find(run: Run) -> tuple[RecalledMemory, ...]:
    agent = run.agent
    if RunOptions.from_dict(run.options).compacts_only:
        return ()
    holder = memory_holders.holder_of(agent.agent_id, run.conversation_id, run.actor)
    if not memories.has_any(holder) or not any(tool.name == _TOOL for tool in tools_of_run(run).all):
        return ()
    turns = user_turns_of(run)
    newest = turns[-1].content if turns else ""
    found = memories.recall_trusted(holder, newest, limit=_MOST, characters=recalled_memories.MOST_CHARACTERS + 1)
    recalled = (RecalledMemory(row.key, row.text, row.source, row.updated_at.date().isoformat()) for row in found)
    budget = min(agent.memory_budget_tokens, agent.max_context_tokens // _LEAST_SHARE_OF_CONTEXT)
    family = tokens.family_of(model_of(run, provider_of(run)))
    return recalled_memories.choose(recalled, budget_tokens=budget, family=family)


def record(run: Run, recalled: tuple[RecalledMemory, ...]) -> None:
    """Store the memories of a run, in the transaction of its first claim."""
    RunRecall.objects.create(run=run, memories=[asdict(memory) for memory in recalled])


def recalled_text(run: Run) -> str:
    """Return the stored memories of a run, which has some, as the content of a message."""
    return recalled_memories.text_of([RecalledMemory(**each) for each in run.recall.memories])
