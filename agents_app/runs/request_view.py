"""The request of a model call as people may look at it: what the model sees, in parts with their sizes. Reads only.

The request is built by the same code as that of a run. Secrets in it are masked. Settings of the agent are its present
ones, also for a recorded step.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User

from agents_app import selectors
from agents_app.configuration.required_rights import may_view_templates
from agents_app.models import Agent, Run
from agents_app.prompt import history, offered_tools, tokens
from agents_app.prompt.run_messages import own_messages
from agents_app.prompt.tool_output_markers import split_memories
from agents_app.rights import VIEW_TEMPLATES
from agents_app.runs import lease
from agents_app.runs.claims import Claim
from agents_app.runs.model_call import build_request, system_parts
from agents_app.types import Message, ModelRequest, Snapshot
from audit_app.kernel import redact
from audit_app.kernel.errors import found
from audit_app.kernel.ids import new_id
from tools_app import selectors as tools
from tools_app.types import ToolSpec

_NOBODY = UUID(int=0)
_HIDDEN_TEMPLATE = f"(To see prompt templates takes the right {VIEW_TEMPLATES.permission}.)"


class PartKind(StrEnum):
    """Kind of a part.

    HISTORY: messages before the run.
    MEMORY: memories.
    MESSAGE: what the run answers.
    STEP: what it did so far.
    """

    SYSTEM = "system"
    TOOL = "tool"
    HISTORY = "history"
    MEMORY = "memory"
    MESSAGE = "message"
    STEP = "step"


@dataclass(frozen=True)
class RequestPart:
    """A part of a request.

    tokens: estimated.
    is_template: it is the text of a prompt template.
    """

    kind: PartKind
    name: str
    text: str
    tokens: int
    is_template: bool = False


@dataclass(frozen=True)
class RequestView:
    """A request of a model call.

    limit_tokens: context of the agent.
    hidden_tools: names of the tools that the run may use and has to find.
    step: place of the call in its run, from 0.
    reported_tokens: as the server counted the same request; None if it did not, or if the call was not made yet.
    """

    model: str
    parts: tuple[RequestPart, ...]
    limit_tokens: int
    hidden_tools: tuple[str, ...]
    step: int = 0
    reported_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    def seen_by(self, user: User | AnonymousUser) -> "RequestView":
        """Return the request without the texts of templates if the user may not see templates."""
        if may_view_templates(user):
            return self
        shown = (replace(part, text=_HIDDEN_TEMPLATE) if part.is_template else part for part in self.parts)
        return replace(self, parts=tuple(shown))

    def tokens_of(self, kind: str) -> int:
        return sum(part.tokens for part in self.parts if part.kind == kind)


def view_first_request(agent: Agent, text: str = "hello") -> RequestView:
    """Return what the agent's model would see of a first message with this text. agent: with its provider."""
    run = Run(agent=agent, conversation_id=new_id(), ordinal=0, fence=1)
    claim = lease.load(run, _NOBODY)
    return _view(claim, replace(claim.snapshot, user_turns=(Message("user", text),)))


def view_request(run_id: UUID, step: int | None = None) -> RequestView:
    """Return what the model saw, or would see next, at a step of a run.

    step: from 0; None: the last recorded one. Raises NotFound for an unknown run, or a step that cannot be next.
    """
    row = found(Run.objects.select_related("agent__provider").filter(pk=run_id).first(), "There is no such run.")
    steps = selectors.list_steps(run_id)
    wanted = max(len(steps) - 1, 0) if step is None else step
    found(0 <= wanted <= len(steps) or None, f"The run has no step {wanted}: it has recorded {len(steps)}.")
    claim = lease.load(row, _NOBODY)
    turns, reported = claim.snapshot.user_turns, None
    if wanted < len(steps):
        turns, reported = turns[: steps[wanted].turns_seen], steps[wanted].usage.input_tokens or None
    executions = tuple(execution for execution in tools.list_executions(run_id) if execution.step < wanted)
    snapshot = replace(claim.snapshot, user_turns=turns, steps=steps[:wanted], executions=executions)
    return replace(_view(claim, snapshot), step=wanted, reported_tokens=reported)


def _view(claim: Claim, snapshot: Snapshot) -> RequestView:
    request = build_request(claim, snapshot, may_call_tools=True)
    family = tokens.family_of(request.model)
    listed = {spec.name for spec in request.tools}
    return RequestView(
        model=request.model,
        parts=tuple(_parts(claim, snapshot, request, family)),
        limit_tokens=snapshot.limits.context_tokens,
        hidden_tools=tuple(spec.name for spec in claim.tools.hidden if spec.name not in listed),
    )


def _parts(claim: Claim, snapshot: Snapshot, request: ModelRequest, family: str) -> Iterator[RequestPart]:
    for part in system_parts(claim):
        is_template = part in claim.run.agent.template_parts
        yield RequestPart(PartKind.SYSTEM, part.name, _shown(part.text), tokens.count(part.text, family), is_template)
    for spec in request.tools:
        yield RequestPart(PartKind.TOOL, spec.name, _tool_text(spec), offered_tools.tokens_of(spec, family))
    messages = [message for message in request.messages if message.role != "system"]
    begin = len(messages) - len(history.repair(own_messages(snapshot)))
    for place, message in enumerate(messages):
        kind = PartKind.HISTORY if place < begin else PartKind.MESSAGE if message.role == "user" else PartKind.STEP
        recalled, content = "", message.content
        if snapshot.recalled and place == begin:
            recalled, content = split_memories(content)
        if recalled:
            yield RequestPart(PartKind.MEMORY, "memories", _shown(recalled), tokens.count(recalled, family))
        shown = replace(message, content=content)
        yield RequestPart(kind, message.role, _message_text(shown), tokens.count_message(shown, family))


def _tool_text(spec: ToolSpec) -> str:
    return _shown(f"{spec.description}\n{json.dumps(spec.parameters, indent=1, ensure_ascii=False)}")


def _message_text(message: Message) -> str:
    calls: Sequence[str] = [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return _shown("\n".join(filter(None, (message.content, *calls))))


def _shown(text: str) -> str:
    shown: str = redact.masked_arguments(text)
    return shown
