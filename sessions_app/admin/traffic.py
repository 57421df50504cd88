"""Inbound messages, attachments and deliveries in the admin. Read only, but failed deliveries can be sent again."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter, FieldTextFilter

from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin, acting
from audit_app.admin_base.filters import RelatedFilter
from audit_app.admin_base.html import json_block
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import bulk_act
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app.admin.masked_fields import masked_metadata, masked_payload
from sessions_app.channels.outbound import dead_letters
from sessions_app.models import Attachment, Delivery, InboundMessage
from sessions_app.rights import RESEND_DELIVERIES

_TONES = {"sent": "success", "failed": "danger", "unknown": "warning", "expired": "danger", "pending": "info"}


@admin.register(InboundMessage)
class InboundMessageAdmin(ReadOnlyAdmin):
    empty_text = "Messages from channels appear here as they arrive."
    list_display = ("line", "sender", "account", "outcome", "received_at")
    list_filter = (("account", RelatedFilter), ("reason", FieldTextFilter))
    prefetched = ("account",)
    search_fields = ("=message_id", "=sender_id")
    search_help_text = "An id, or the platform's id of a message or sender"
    fields = (
        "account",
        "message_id",
        "sender",
        "chat_id",
        "text_shown",
        "outcome",
        "session_link",
        "run_link",
        "details",
        "files",
        "payload",
        "sent_at",
        "received_at",
    )
    readonly_fields = fields

    line = columns.column("Message", lambda row: visible(shorten(row.text or row.message_id, 80)))
    sender = columns.column(
        "Sender", lambda row: visible(f"{row.sender_name} ({row.sender_id})" if row.sender_name else row.sender_id)
    )
    text_shown = columns.text("Text", "text")
    outcome = columns.text("Outcome", "reason", empty="answered by a run")
    session_link = columns.link("Session", "session", "session_id")
    run_link = columns.link("Run", "run", "run_id")
    details = columns.column("Metadata", lambda row: json_block(masked_metadata(row.metadata)))
    files = columns.column("Attachments", lambda row: json_block(row.attachments))
    payload = columns.column(
        "Payload", lambda row: json_block(masked_payload(row.raw, row.metadata)) if row.raw else "kept for seven days"
    )


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    empty_text = "Files that people send appear here."
    search_ids = ("turn",)
    list_display = ("line", "kind", "account", "state", "size_bytes", "created_at")
    list_filter = (("status", ChoicesDropdownFilter), ("account", RelatedFilter))
    prefetched = ("account", "uploader")
    search_help_text = "An id, or that of a turn"
    fields = (
        "account",
        "person",
        "line",
        "kind",
        "mime_type",
        "size_bytes",
        "state",
        "problem",
        "path",
        "artifact_id",
        "text_shown",
        "created_at",
    )
    readonly_fields = fields

    line = columns.text("File", "filename", empty="–")
    person = columns.column("Uploaded by", lambda row: visible(row.uploader.get_username()) if row.uploader else "–")
    state = columns.column(
        "Status", lambda row: row.status, label={"stored": "success", "failed": "danger", "waiting": "info"}
    )
    problem = columns.text("Error", "error", empty="–")
    text_shown = columns.text("Text", "text", empty="–")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    empty_text = "Answers to channels appear here, with those that could not be sent."
    search_ids = ("run",)
    list_display = ("line", "account", "state", "tries", "created_at", "sent_at")
    list_filter = (("status", ChoicesDropdownFilter), ("account", RelatedFilter))
    prefetched = ("account",)
    list_disable_select_all = False
    search_fields = ("=provider_message_id", "=ordering_key")
    search_help_text = "A run's id, or the platform's id of a message"
    actions = ("send_again",)
    fields = (
        "account",
        "session_link",
        "run_link",
        "kind",
        "part",
        "parts",
        "text_shown",
        "state",
        "tries",
        "provider_message_id",
        "problem",
        "created_at",
        "ready_at",
        "sent_at",
        "report_shown",
        "expires_at",
    )
    readonly_fields = fields

    has_resend_permission = granted_by(RESEND_DELIVERIES)

    @bulk_act(
        "Send again",
        permissions=["resend"],
        question="Send these again? A message that has arrived is then delivered twice.",
        submit="Send again",
    )
    def send_again(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        with acting(request):
            count = dead_letters.send_again(list(deliveries))
        done = f"{count} will be sent again. Deliveries that were sent or are waiting are unchanged."
        messages.success(request, done)

    line = columns.column("Message", lambda row: visible(shorten(row.text or row.filename or row.kind, 80)))
    text_shown = columns.text("Text", "text")

    state = columns.column("Status", lambda row: row.status, label=_TONES)
    problem = columns.text("Error", "error", empty="–")
    report_shown = columns.column(
        "Delivery report",
        lambda row: f"{row.report} {row.reported_at:%Y-%m-%d %H:%M} UTC" if row.reported_at else "none",
    )
    session_link = columns.link("Session", "session", "session_id")
    run_link = columns.link("Run", "run", "run_id")
