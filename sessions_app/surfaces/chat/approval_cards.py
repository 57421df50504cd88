"""Approval cards: requests for approval, below the tool calls that they are about.

Users who decide see all arguments, with every invisible character escaped.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from audit_app.kernel.redact import masked
from audit_app.kernel.safe_text import pretty_json, visible
from sessions_app.approvals import prompt_text
from sessions_app.surfaces.chat.collapse import Folded, folded
from tools_app.executions.changes import DiffLine, diff
from tools_app.types import ApprovalStatus, ApprovalView, Change, Decision

_LONGEST_ARGUMENTS = 100_000


@dataclass(frozen=True)
class ApprovalCard:
    """A request for approval as one viewer sees it.

    call_id: the execution that it is about.
    changes: the diff of the text that the call would change, if any; changed: the name of that text.
    choices: decisions that the viewer may make, perhaps none.
    run_scope, always_scope: descriptions of the calls that those decisions would allow.
    outcome: the decision and who made it.
    """

    id: UUID
    call_id: UUID
    tool: str
    risk: str
    reason: str
    status: ApprovalStatus
    expires_at: datetime
    arguments: Folded
    changes: tuple[DiffLine, ...] = ()
    changed: str = ""
    choices: tuple[Decision, ...] = ()
    run_scope: str = ""
    always_scope: str = ""
    outcome: str = ""
    note: str = ""
    decided_at: datetime | None = None

    @property
    def is_pending(self) -> bool:
        return self.status is ApprovalStatus.PENDING

    @property
    def is_refused(self) -> bool:
        return self.status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED)

    @property
    def may_decide(self) -> bool:
        return bool(self.choices)

    @property
    def offers_run(self) -> bool:
        return Decision.ALLOW_RUN in self.choices

    @property
    def offers_always(self) -> bool:
        return Decision.ALLOW_ALWAYS in self.choices

    @property
    def waiting_label(self) -> str:
        """Return the status of the run while the request is pending."""
        return waiting_label(self.may_decide)


def card_of(
    approval: ApprovalView, change: Change | None, *, allowed_decisions: Collection[Decision], name: str
) -> ApprovalCard:
    """Return the card of a request.

    change: the effect of the call on a text, if known.
    allowed_decisions: those of the viewer.
    name: of the actor who decided.
    """
    hidden = Change(masked(change.before), masked(change.after), change.name) if change else None
    return ApprovalCard(
        approval.id,
        approval.execution_id,
        approval.tool,
        approval.risk,
        approval.reason,
        approval.status,
        approval.expires_at,
        _arguments(approval.arguments),
        tuple(replace(line, text=visible(line.text)) for line in diff(hidden)) if hidden else (),
        hidden.name if hidden else "",
        prompt_text.narrowed(approval, allowed_decisions).choices,
        _scope(approval.run_pattern),
        _scope(approval.pattern),
        prompt_text.outcome(approval, name),
        masked(approval.note),
        approval.decided_at,
    )


def waiting_label(may_decide: bool) -> str:
    return "Waiting for your decision" if may_decide else "Waiting for an operator"


def _arguments(arguments: dict[str, Any]) -> Folded:
    text = pretty_json(masked(arguments))
    if len(text) > _LONGEST_ARGUMENTS:
        hidden = len(text) - _LONGEST_ARGUMENTS
        text = f"{text[:_LONGEST_ARGUMENTS]}\n… {hidden:,} more characters are not shown here"
    return folded(text)


def _scope(pattern: str) -> str:
    return prompt_text.scope(pattern) if pattern else ""
