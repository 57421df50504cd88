"""Approvals of tool calls."""

from collections.abc import Collection
from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, JSONField, ListField, Serializer, UUIDField

from audit_app.kernel import redact
from sessions_app.approvals import prompt_text
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    Timestamp,
)
from sessions_app.surfaces.rest.envelope import PageQuery
from tools_app.executions import preview
from tools_app.types import ApprovalStatus, ApprovalView, Decision, Risk


class ApprovalQuery(PageQuery):
    status = ChoiceField(choices=["", *(status.value for status in ApprovalStatus)], default="")


class DecideBody(CamelCaseSerializer):
    decision = ChoiceField(choices=[choice.value for choice in Decision])
    note = CharField(max_length=1000, default="", allow_blank=True, help_text="Passed to the model.")


class PatternsOut(Serializer[Any]):
    allow_run = NullableText()
    allow_always = NullableText()


class ApprovalOut(ObjectSerializer):
    approval_id = UUIDField(source="id")
    execution_id = UUIDField()
    run_id = UUIDField()
    session_id = CharField()
    agent_id = CharField()
    tool_name = CharField(source="tool")
    parameters = JSONField(help_text="The arguments of the call. Secrets are masked; their length is shown.")
    places = ListField(
        child=CharField(), help_text="Hosts in the arguments, in ASCII and, if that differs, as they are written."
    )
    risk = ChoiceField(choices=list(Risk))
    reason = CharField()
    origins = ListField(
        child=CharField(), help_text="Origins of what the run had read by then, such as `page:example.org`."
    )
    choices = ListField(child=ChoiceField(choices=list(Decision)), help_text="The decisions that you may make now.")
    patterns = PatternsOut(help_text="The calls that the wider decisions would allow.")
    credentials = ListField(child=CharField(), help_text="Names of the credentials that the call uses.")
    credential_owner = NullableText(help_text="Owner of the credentials: user:<id> or installation.")
    may_decide = BooleanField(help_text="You may decide it now.")
    needs_two = BooleanField(help_text="Two people must allow it, neither of them the requester.")
    first_allowed_by = NullableText(help_text="User who allowed it first. It stays pending until the second one.")
    status = ChoiceField(choices=list(ApprovalStatus))
    decision = NullableChoice(choices=list(Decision))
    decided_by = NullableText()
    note = CharField()
    created_at = Timestamp()
    expires_at = Timestamp()
    decided_at = Timestamp(allow_null=True)


def approval(view: ApprovalView, *, session_key: str, allowed_decisions: Collection[Decision]) -> dict[str, Any]:
    """Return a request for approval.

    session_key: empty if the session is deleted.
    allowed_decisions: the decisions that the caller may make in that session.
    """
    is_open = view.status is ApprovalStatus.PENDING
    choices = prompt_text.narrowed(view, allowed_decisions).choices if is_open else ()
    return ApprovalOut.of(
        view,
        session_id=session_key or view.session_id,
        parameters=redact.masked_for_approver(view.arguments),
        places=preview.targets_first(view).places,
        choices=choices,
        patterns={"allow_run": view.run_pattern, "allow_always": view.pattern},
        may_decide=bool(choices),
    )
