"""Channel accounts, routes and deliveries over REST: the fields of requests and answers."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, IntegerField, ListField, UUIDField

from sessions_app.channels import account_state, open_access
from sessions_app.channels.account_state import DEAD
from sessions_app.channels.connections import condition
from sessions_app.models import ChannelAccount, ChannelRoute, Delivery
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, Count, NullableText, ObjectSerializer, Timestamp
from sessions_app.surfaces.rest.envelope import PageQuery


class ConnectionStateOut(ObjectSerializer):
    is_ok = BooleanField(help_text="The account receives events.")
    text = CharField()
    remedy = CharField(help_text="Remedy; empty if nothing has to be done.")


class DeliveryQueueOut(ObjectSerializer):
    """Numbers of deliveries. unknown: sent, but they may not have arrived."""

    pending = Count()
    sending = Count()
    failed = Count()
    unknown = Count()
    expired = Count()


class ChannelAccountOut(ObjectSerializer):
    """An account with its state. It has no secrets, and no settings of its channel."""

    id = UUIDField()
    channel = CharField()
    account_id = CharField(help_text="Name of the account, part of its webhook's address.")
    agent_id = CharField(help_text="Agent of new sessions without a route.")
    access = ChoiceField(choices=[name for name, _ in ChannelAccount.ACCESS])
    is_enabled = BooleanField()
    tools = ListField(
        child=CharField(), allow_null=True, help_text="Tools that its runs may use. Null: those of the agent."
    )
    messages_per_day = IntegerField(allow_null=True, help_text="Limit of messages per sender and day. Null: none.")
    choosable_agents = ListField(child=CharField(), help_text="Ids of agents that senders may choose by /agent.")
    last_inbound_at = Timestamp(allow_null=True)
    last_sent_at = Timestamp(allow_null=True)
    last_error = NullableText()
    last_error_at = Timestamp(allow_null=True)
    connection = ConnectionStateOut(
        allow_null=True, help_text="State of the connection. Null: the account receives by webhook."
    )
    queue = DeliveryQueueOut()
    refused_last_day = Count(help_text="Messages of the last 24 hours that were refused because of their sender.")
    warnings = ListField(child=CharField(), help_text="Warnings about an account that is open to everyone.")
    created_at = Timestamp()
    updated_at = Timestamp()

    @classmethod
    def of(cls, subject: ChannelAccount, *, queue: Mapping[str, int] | None = None, **given: Any) -> dict[str, Any]:
        counts = queue or account_state.count_deliveries([subject.pk])[subject.pk]
        return super().of(
            subject,
            agent_id=subject.agent.agent_id if subject.agent else "default",
            tools=subject.allowed_tools(),
            messages_per_day=open_access.messages_per_day(subject),
            choosable_agents=sorted(open_access.choosable_ids(subject)),
            connection=condition.describe(subject),
            queue=SimpleNamespace(**counts),
            refused_last_day=account_state.count_refused(subject),
            warnings=list(open_access.dangers(subject)),
            **given,
        )


class RouteBody(CamelCaseSerializer):
    """An agent or a network for a chat, a sender, or both. A change keeps what it leaves out."""

    chat_id = model_field(ChannelRoute, "chat_id", default="", help_text="Platform id of the chat. Empty: any chat.")
    sender_id = model_field(
        ChannelRoute, "sender_id", default="", help_text="Platform id of the sender. Empty: any sender."
    )
    agent_id = CharField(max_length=120, default="", allow_blank=True)
    network = CharField(
        max_length=60, default="", allow_blank=True, help_text="Network that answers, instead of an agent."
    )


class RouteOut(ObjectSerializer):
    id = UUIDField()
    chat_id = CharField(help_text="Platform id of the chat. Empty: any chat.")
    sender_id = CharField(help_text="Platform id of the sender. Empty: any sender.")
    agent_id = NullableText()
    network = NullableText()
    is_chosen = BooleanField(help_text="Chosen by a sender with /agent.")
    created_at = Timestamp()
    updated_at = Timestamp()

    @classmethod
    def of(cls, subject: ChannelRoute, **given: Any) -> dict[str, Any]:
        agent_id = subject.agent.agent_id if subject.agent else None
        return super().of(subject, agent_id=agent_id, network=subject.network and subject.network.name, **given)


class DeliveryQuery(PageQuery):
    status = ChoiceField(DEAD, default="", help_text="States to list. Default: all three.")


class DeliveryOut(ObjectSerializer):
    id = IntegerField()
    status = CharField()
    kind = CharField()
    session_id = CharField(allow_null=True)
    run_id = UUIDField(allow_null=True)
    chat_id = CharField()
    text = CharField()
    part = IntegerField(help_text="From 0.")
    parts = IntegerField()
    tries = IntegerField()
    error = NullableText()
    created_at = Timestamp()
    sent_at = Timestamp(allow_null=True)
    expires_at = Timestamp()

    @classmethod
    def of(cls, subject: Delivery, **given: Any) -> dict[str, Any]:
        session = subject.session
        return super().of(
            subject, session_id=session.key if session else None, chat_id=subject.target.get("chat", ""), **given
        )
