"""Exports of sessions, links to them, and forks."""

from rest_framework.serializers import BooleanField, CharField, ChoiceField, UUIDField

from sessions_app.chat_copies import exports, share_links
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp


class ExportQuery(CamelCaseSerializer):
    format_ = ChoiceField(choices=exports.FORMATS, default="markdown")
    tool_calls = BooleanField(default=True, help_text="With tool calls, whose secrets are masked.")


class ShareBody(CamelCaseSerializer):
    days = ChoiceField(choices=share_links.DAYS, default=share_links.DEFAULT_DAYS, help_text="The link ends then.")
    tool_calls = BooleanField(default=False, help_text="The link shows tool calls, with secrets masked.")
    files = BooleanField(default=False, help_text="The readers may download the files of the session.")


class ForkBody(CamelCaseSerializer):
    run_id = UUIDField(help_text="The run of the last message to take over.")


class ShareLinkOut(ObjectSerializer):
    share_id = UUIDField(source="id")
    session_id = CharField(source="session.key")
    title = CharField(source="session.title")
    tool_calls = BooleanField(source="has_calls")
    files = BooleanField(source="has_files")
    created_at = Timestamp()
    expires_at = Timestamp()


class NewShareLinkOut(ShareLinkOut):
    url = CharField(help_text="The address of the page. Shown once.")
