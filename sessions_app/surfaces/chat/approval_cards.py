"""Approval cards: requests for approval, below the tool calls that they are about.

Users who decide see all arguments, with every invisible character escaped.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from audit_app.kernel.redact import masked, masked_for_approver
from audit_app.kernel.safe_text import pretty_json, visible
from sessions_app.approvals import prompt_text
from sessions_app.surfaces.chat.collapse import Folded, folded
from tools_app.executions.changes import DiffLine, diff
from tools_app.policy import taint
from tools_app.types import ApprovalStatus, ApprovalView, Change, Decision

_LONGEST_ARGUMENTS = 100_000


@dataclass(frozen=True)
class ApprovalCard:
    """A request for approval as one viewer sees it.

    approval: with the choices that the viewer has, perhaps none.
    arguments, note: masked.
    changes: the diff of the text that the call would change, if any.
    changed: the name of that text.
    run_scope, always_scope: descriptions of the calls that those decisions would allow.
    outcome: the decision and who made it.
    """

    approval: ApprovalView
    arguments: Folded
    changes: tuple[DiffLine, ...]
    changed: str
    run_scope: str
    always_scope: str
    outcome: str
    note: str

    @property
    def is_pending(self) -> bool:
        return self.approval.status is ApprovalStatus.PENDING

    @property
    def origins(self) -> str:
        """Return everything that the run had read from outside, for people; empty if the reason names it."""
        text = ", ".join(map(taint.described_one, self.approval.origins))
        return "" if text in self.approval.reason else visible(text)

    @property
    def places(self) -> str:
        return ", ".join(self.approval.places)

    @property
    def is_refused(self) -> bool:
        return self.approval.status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED)

    @property
    def may_decide(self) -> bool:
        return bool(self.approval.choices)

    @property
    def waiting_label(self) -> str:
        """Return the status of the run while the request is pending."""
        return waiting_label(self.may_decide)


def card_of(
    approval: ApprovalView, change: Change | None, *, allowed_decisions: Collection[Decision], name: str
) -> ApprovalCard:
    """Return the card of a request.

    change: the effect of the call on a text, if known.
    name: name of the actor who decided.
    """
    hidden = Change(masked(change.before), masked(change.after), change.name) if change else None
    return ApprovalCard(
        prompt_text.narrowed(approval, allowed_decisions),
        _arguments(approval.arguments),
        tuple(replace(line, text=visible(line.text)) for line in diff(hidden)) if hidden else (),
        hidden.name if hidden else "",
        prompt_text.run_scope(approval.run_pattern) if approval.run_pattern else "",
        prompt_text.scope(approval.pattern) if approval.pattern else "",
        prompt_text.outcome(approval, name),
        masked(approval.note),
    )


def waiting_label(may_decide: bool) -> str:
    return "Waiting for your decision" if may_decide else "Waiting for an operator"


def _arguments(arguments: dict[str, Any]) -> Folded:
    text = pretty_json(masked_for_approver(arguments))
    if len(text) > _LONGEST_ARGUMENTS:
        hidden = len(text) - _LONGEST_ARGUMENTS
        text = f"{text[:_LONGEST_ARGUMENTS]}\n… {hidden:,} more characters are not shown here"
    return folded(text)
