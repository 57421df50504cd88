"""Sessions with their branches, their restrictions and the use of their context."""

from rest_framework.serializers import BooleanField, CharField, IntegerField, ListField, UUIDField

from agents_app.models import Agent
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, Count, ObjectSerializer, Timestamp
from sessions_app.surfaces.rest.envelope import Page, PageQuery


class SessionQuery(PageQuery):
    query = CharField(max_length=500, default="", help_text="Sessions with a title or a message that matches.")


class HistoryQuery(PageQuery):
    max_turns = IntegerField(
        min_value=1, max_value=1000, default=None, allow_null=True, help_text="Return the newest N on one page."
    )
    failed = BooleanField(default=False, help_text="Return the turns of failed runs that have no text, too.")
    branch = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Number of the branch. Default: the active one.",
    )

    @property
    def wanted(self) -> Page:
        newest = self.validated_data["max_turns"]
        return super().wanted if newest is None else Page(1, newest)


class BindBody(CamelCaseSerializer):
    agent_id = CharField(max_length=120)


class CancelBody(CamelCaseSerializer):
    run_id = UUIDField(default=None, allow_null=True)


class BranchBody(CamelCaseSerializer):
    branch = IntegerField(min_value=0, max_value=2**31 - 1)


class SessionPolicyBody(CamelCaseSerializer):
    """Restrictions of a session. A missing field removes its restriction."""

    readonly = BooleanField(default=False)
    denied_tools = model_field(Agent, "denied_tools", help_text="")


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
    snippet = CharField(help_text="Part of the best message; empty if only the title matches.")
    optional = ("snippet",)


class SessionPolicyOut(ObjectSerializer):
    readonly = BooleanField()
    denied_tools = ListField(child=CharField())


class BranchOut(ObjectSerializer):
    branch = IntegerField(source="number", help_text="Number of the branch; 0 is the original path.")
    parent_branch = IntegerField(source="parent", allow_null=True, help_text="Branch that it departs from.")
    run_id = UUIDField(source="run", allow_null=True, help_text="The first run of the branch.")
    replaces_run_id = UUIDField(source="replaces_run", allow_null=True, help_text="Run of the parent that it replaces.")
    is_active = BooleanField(help_text="Later messages continue it.")
    created_at = Timestamp()


class CheckpointOut(ObjectSerializer):
    summary = CharField(help_text="Summary that replaces the older turns in requests.")
    covered_turns = Count(help_text="Number of summarised turns.")
    covered_until = IntegerField(source="ordinal", help_text="Highest ordinal of these turns.")
    reason = CharField(help_text="threshold, overflow or asked.")
    tokens_before = Count(help_text="Estimated tokens of the request without the summary.")
    tokens_after = Count(help_text="Estimated tokens of the request with the summary.")
    model = CharField()
    created_at = Timestamp()


class ContextOut(ObjectSerializer):
    """Of a `ContextUsage`: estimated tokens."""

    limit = Count(help_text="Context size of the agent, in tokens.")
    budget = Count(help_text="Tokens that a request may have.")
    used = Count(help_text="Sum of the parts.")
    percent = IntegerField(help_text="Used percentage of the budget, at most 100.")
    system = Count()
    tools = Count()
    summary = Count()
    pinned = Count()
    history = Count()
    newest = Count(help_text="The messages of the last run.")
    is_calibrated = BooleanField(help_text="The estimates are corrected by the last report of the model server.")
    checkpoint = CheckpointOut(allow_null=True, help_text="The summary of older turns, if there is one.")
