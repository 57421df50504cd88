"""The objects of links with senders of channels."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, UUIDField

from sessions_app.models import SenderLink
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp


class NumberBody(CamelCaseSerializer):
    number = CharField(max_length=20, help_text="Number that the chat replied with.")


class LinkCodeOut(ObjectSerializer):
    code = CharField(help_text="Code to send as `/link CODE` in a private chat. It is shown only once.")
    expires_at = Timestamp()


class LinkOut(ObjectSerializer):
    link_id = UUIDField(source="pk")
    channel = CharField(help_text="Slug of the channel.")
    account_id = CharField()
    sender_id = CharField()
    sender_name = CharField()
    is_linked = BooleanField(help_text="False: the sender has sent your code, but you have not entered the number yet.")
    created_at = Timestamp()
    linked_at = Timestamp(allow_null=True)

    @classmethod
    def of(cls, subject: SenderLink, **given: Any) -> dict[str, Any]:
        account = subject.account
        place = {"channel": account.channel, "account_id": account.account_id} if account else {}
        return super().of(subject, is_linked=subject.linked_at is not None, **place, **given)
