"""Request bodies that are not messages, and the files of a form."""

import re
from urllib.parse import quote

from rest_framework import serializers

from sessions_app.platforms.base import WebhookRequest
from sessions_app.surfaces.base.forms import file_of, read_form
from sessions_app.surfaces.base.serializers import CamelCaseSerializer

_LONGEST_ENCODED = 180
# No quotes, which may hide control characters; no domain without a dot and no IP address: hosts of this network.
_MAILBOX = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z][A-Za-z0-9-]+", re.ASCII)
_ID = r"^[A-Za-z0-9_-]{1,64}$"


def _check_fits(user_id: str) -> None:
    """Raise ValidationError for an id that is too long as a part of a session's id."""
    if len(quote(user_id, safe="")) > _LONGEST_ENCODED:
        raise serializers.ValidationError(f"It has more than {_LONGEST_ENCODED} characters when percent-encoded.")


class OpenBody(CamelCaseSerializer):
    user_id = serializers.CharField(
        max_length=120,
        default="",
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,  # the hash is of the id as it is
        validators=[_check_fits],
        help_text="Id of the user on the site.",
    )
    user_hash = serializers.CharField(
        max_length=64, default="", allow_null=True, allow_blank=True, help_text="Hex HMAC-SHA256 of the user's id."
    )
    name = serializers.CharField(
        max_length=200, default="", allow_null=True, allow_blank=True, help_text="Name of the visitor, shown to users."
    )
    conversation_id = serializers.RegexField(
        _ID,
        max_length=64,
        default="",
        allow_null=True,
        allow_blank=True,
        help_text="Id of an earlier conversation of the visitor.",
    )


class MailBody(CamelCaseSerializer):
    address = serializers.EmailField(max_length=254, help_text="Address that gets the conversation.")

    def validate_address(self, value: str) -> str:
        if not value.isascii():
            raise serializers.ValidationError("Only addresses in ASCII can get mails.")
        if not _MAILBOX.fullmatch(value):
            raise serializers.ValidationError("Enter an address such as name@example.org.")
        return value


def read_upload(request: WebhookRequest) -> tuple[str, bytes]:
    """Return the name and the content of the form's file. Raises InvalidInput, UnsupportedMediaType."""
    file = file_of(read_form(request.header("content-type"), request.body))
    return file.name, file.data
