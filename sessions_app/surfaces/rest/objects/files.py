"""Files of sessions (artifacts), and those that are uploaded for a message (attachments)."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, UUIDField

from sessions_app.attachments import records
from sessions_app.models import Attachment
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, Count, NullableText, ObjectSerializer, Timestamp
from tools_app.storage import artifact_paths
from tools_app.storage.artifacts import ArtifactView


class UploadQuery(CamelCaseSerializer):
    path = CharField(
        max_length=artifact_paths.MAX_CHARACTERS,
        trim_whitespace=False,
        help_text="Such as files/report.pdf. If the path is taken, the file becomes `files/report (2).pdf`.",
    )
    replace = BooleanField(default=False, help_text="Replace an existing file with the same path.")


class AttachmentQuery(CamelCaseSerializer):
    filename = CharField(max_length=500, default="", allow_blank=True, help_text="The name that the agent sees.")


class ArtifactOut(ObjectSerializer):
    artifact_id = UUIDField(source="id")
    session_id = CharField()
    run_id = UUIDField(allow_null=True)
    path = CharField()
    media_type = CharField()
    size_bytes = Count()
    sha256 = CharField()
    updated_at = Timestamp()
    url = CharField(help_text="Path of the content on this server.")

    @classmethod
    def of(cls, subject: ArtifactView, **given: Any) -> dict[str, Any]:
        return super().of(subject, url=f"/api/artifacts/{subject.id}", **given)


class AttachmentOut(ObjectSerializer):
    attachment_id = UUIDField(source="pk")
    kind = CharField(help_text="image, audio, voice, video, file or sticker.")
    filename = CharField()
    media_type = CharField(source="mime_type", help_text="Media type detected from the content.")
    size_bytes = Count(allow_null=True)
    status = ChoiceField(choices=Attachment.STATUSES)
    error = NullableText(help_text="Reason why it was not downloaded.")
    transcript = NullableText(help_text="Transcript of an audio file.")
    omitted_because = NullableText(help_text="Reason why the model did not get the content.")
    page_count = Count(
        allow_null=True, help_text="Pages of a document, sheets of a workbook or slides of a presentation, if known."
    )
    pages = NullableText(help_text="The same as a text, such as `3 slides`.")
    artifact_id = UUIDField(allow_null=True, help_text="The file of the session with its content.")
    url = NullableText(help_text="Path of the content on this server.")

    @classmethod
    def of(cls, subject: Attachment, **given: Any) -> dict[str, Any]:
        transcript = subject.text if subject.transcription else ""
        given |= {"transcript": transcript, "pages": records.described(subject).pages}
        return super().of(subject, url=records.url_of(subject), **given)
