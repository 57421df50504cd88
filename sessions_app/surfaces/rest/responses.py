"""The objects of users, sessions, runs and tools: their fields in answers and in the OpenAPI document.

Values are read from rows and views that are loaded already.
"""

from collections.abc import Collection, Iterable
from typing import Any

from django.contrib.auth.models import User
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
    UUIDField,
)

from audit_app.kernel import redact
from audit_app.models import AuditEntry
from sessions_app.approvals import prompt_text
from sessions_app.attachments import records
from sessions_app.identity.actor_names import display_name
from sessions_app.models import ApiKey, Attachment, Turn
from sessions_app.selectors import citations_of
from sessions_app.surfaces.base.citations_json import CitationOut
from sessions_app.surfaces.base.serializers import (
    Count,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    TimeSpan,
    Timestamp,
)
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ApprovalStatus, ApprovalView, Decision, ExecutionStatus, Risk


class UserOut(ObjectSerializer):
    id = CharField(source="pk")
    name = CharField()
    email = CharField()
    initials = CharField()

    @classmethod
    def of(cls, subject: User, **given: Any) -> dict[str, Any]:
        name = display_name(subject)
        parts = name.split()
        initials = f"{parts[0][0]}{parts[-1][0]}" if len(parts) > 1 else name[:2]
        return super().of(subject, name=name, initials=initials.upper(), **given)


class TokensOut(ObjectSerializer):
    token = CharField(source="access", help_text="A JWT.")
    refresh_token = CharField(source="refresh", help_text="Valid once.")


class LoginOut(TokensOut):
    user = UserOut()


class TicketOut(ObjectSerializer):
    ticket = CharField()
    expires_in_seconds = IntegerField()


class SessionOut(ObjectSerializer):
    """Of a row with its agent."""

    session_id = CharField(source="key", help_text="The public id: {Channel}:{AccountId}:{SenderId}[:{ThreadId}].")
    id = UUIDField()
    channel = CharField()
    account_id = CharField()
    sender_id = CharField()
    sender_display_name = CharField(source="sender_name")
    agent_id = CharField(source="agent.agent_id")
    title = CharField()
    message_count = Count()
    created_at = Timestamp()
    last_active_at = Timestamp()


class FoundSessionOut(SessionOut):
    snippet = CharField(help_text="Of the best message; empty if the title alone matches.")
    optional = ("snippet",)


class SessionPolicyOut(ObjectSerializer):
    readonly = BooleanField()
    denied_tools = ListField(child=CharField())


class AttachmentOut(ObjectSerializer):
    attachment_id = UUIDField(source="pk")
    kind = CharField(help_text="image, audio, voice, video, file or sticker.")
    filename = CharField()
    media_type = CharField(source="mime_type", help_text="As the bytes of the file say.")
    size_bytes = Count(allow_null=True)
    status = ChoiceField(choices=Attachment.STATUSES)
    error = NullableText(help_text="The reason why it was not fetched.")
    transcript = NullableText(help_text="The words of an audio file, written by a machine.")
    omitted_because = NullableText(help_text="The reason why the model did not get its content.")
    artifact_id = UUIDField(allow_null=True, help_text="The file of the session with its content.")
    url = NullableText(help_text="The path of its content on this server.")

    @classmethod
    def of(cls, subject: Attachment, **given: Any) -> dict[str, Any]:
        transcript = subject.text if subject.transcription else ""
        return super().of(subject, url=records.url_of(subject), transcript=transcript, **given)


class TurnOut(ObjectSerializer):
    role = ChoiceField(choices=Turn.ROLES)
    content = CharField()
    timestamp = Timestamp(source="created_at")
    tool_call_ids = ListField(child=UUIDField(), allow_null=True)
    turn_id = UUIDField(source="pk")
    run_id = UUIDField(allow_null=True)
    state = ChoiceField(choices=Turn.STATES)
    error = NullableText(source="error_message", help_text="The reason why the turn is partial or an error.")
    error_code = NullableText()
    citations = ListField(child=CitationOut(), help_text="In the order of the markers in `content`.")
    attachments = ListField(child=AttachmentOut(), help_text="Files of the message.")
    is_pinned = BooleanField(help_text="Later runs read it in full, however old it is.")
    is_summarised = BooleanField(help_text="Later runs read the session's summary in its place.")

    @classmethod
    def of(cls, subject: Turn, files: Iterable[Attachment] = (), **given: Any) -> dict[str, Any]:
        given.setdefault("is_summarised", False)
        return super().of(subject, citations=citations_of(subject), attachments=tuple(files), **given)


class BranchOut(ObjectSerializer):
    branch = IntegerField(source="number", help_text="0 is the path with which the session began.")
    parent_branch = IntegerField(source="parent", allow_null=True, help_text="The branch whose turns are before it.")
    run_id = UUIDField(source="run", allow_null=True, help_text="The first run of the branch.")
    replaces_run_id = UUIDField(
        source="replaces_run", allow_null=True, help_text="The run of the parent in whose place it begins."
    )
    is_active = BooleanField(help_text="Later messages continue it.")
    created_at = Timestamp()


class AnsweredOut(ObjectSerializer):
    session_id = CharField()
    text = CharField()
    timestamp = Timestamp()


class StructuredAnswerOut(AnsweredOut):
    output = JSONField(help_text="The value of an answer that has a JSON Schema.")


class AcceptedOut(ObjectSerializer):
    session_id = CharField()
    run_id = UUIDField()


class ExecutionOut(ObjectSerializer):
    execution_id = UUIDField(source="id")
    status = ChoiceField(choices=list(ExecutionStatus))
    output = CharField(allow_null=True, help_text="JSON in a string.")
    error = CharField(allow_null=True)
    completed_at = Timestamp(allow_null=True)
    duration = TimeSpan(source="duration_seconds", allow_null=True)
    receipt = NullableText()
    origins = ListField(
        child=CharField(), help_text="What the result brought into the run from outside, such as `page:example.org`."
    )


class ReceiptVerdictOut(ObjectSerializer):
    valid = BooleanField(source="is_valid")
    execution_id = UUIDField(allow_null=True)
    reason = CharField()


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
    parameters = JSONField(help_text="The arguments of the call. Secrets are masked.")
    risk = ChoiceField(choices=list(Risk))
    reason = CharField()
    origins = ListField(
        child=CharField(), help_text="What the run had read from outside by then, such as `page:example.org`."
    )
    choices = ListField(child=ChoiceField(choices=list(Decision)), help_text="The decisions that you may make now.")
    patterns = PatternsOut(help_text="The calls that the wider decisions would allow.")
    credentials = ListField(child=CharField(), help_text="Names of the credentials that the call uses.")
    credential_owner = NullableText(help_text="Their owner: user:<id> or installation.")
    may_decide = BooleanField(help_text="Whether you may decide it now.")
    needs_two = BooleanField(help_text="Whether two people must allow it, neither of them the requester.")
    first_allowed_by = NullableText(help_text="The first of the two; it is pending until the second.")
    status = ChoiceField(choices=list(ApprovalStatus))
    decision = NullableChoice(choices=list(Decision))
    decided_by = NullableText()
    note = CharField()
    created_at = Timestamp()
    expires_at = Timestamp()
    decided_at = Timestamp(allow_null=True)


class ApiKeyOut(ObjectSerializer):
    id = UUIDField()
    name = CharField()
    prefix = CharField()
    scopes = ListField(child=CharField())
    created_at = Timestamp()
    expires_at = Timestamp(allow_null=True)
    last_used_at = Timestamp(allow_null=True)
    revoked_at = Timestamp(allow_null=True)

    @classmethod
    def of(cls, subject: ApiKey, **given: Any) -> dict[str, Any]:
        return super().of(subject, prefix=f"sk-user-{subject.prefix}", **given)


class NewApiKeyOut(ApiKeyOut):
    key = CharField(help_text="The key itself. It is shown only once.")


class CredentialOut(ObjectSerializer):
    """Never with its value."""

    name = CharField()
    hosts = ListField(child=CharField(), help_text="Hosts that calls may send it to.")
    agents = ListField(child=CharField(), help_text="Agents that may use it in runs of other users.")
    created_at = Timestamp()
    updated_at = Timestamp()
    last_used_at = Timestamp(allow_null=True)


class AuditEntryOut(ObjectSerializer):
    id = CharField()
    action = CharField()
    actor_id = CharField(source="actor")
    agent_id = NullableText()
    session_id = CharField(allow_null=True)
    request_id = NullableText()
    timestamp = Timestamp(source="at")
    details = DictField()

    @classmethod
    def of(cls, subject: AuditEntry, **given: Any) -> dict[str, Any]:
        return super().of(subject, session_id=subject.session_key or subject.session_id, **given)


class ArtifactOut(ObjectSerializer):
    artifact_id = UUIDField(source="id")
    session_id = CharField()
    run_id = UUIDField(allow_null=True)
    path = CharField()
    media_type = CharField()
    size_bytes = Count()
    sha256 = CharField()
    updated_at = Timestamp()
    url = CharField(help_text="The path of its content on this server.")


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
        parameters=redact.masked_arguments(view.arguments),
        choices=choices,
        patterns={"allow_run": view.run_pattern, "allow_always": view.pattern},
        may_decide=bool(choices),
    )


def artifact(view: ArtifactView, session_key: str) -> dict[str, Any]:
    return ArtifactOut.of(view, session_id=session_key, url=f"/api/artifacts/{view.id}")
