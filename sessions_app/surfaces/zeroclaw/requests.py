"""Bodies and queries of requests, and the frames that a client sends, checked."""

import json
import re
from dataclasses import dataclass
from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    DictField,
    IntegerField,
    Serializer,
    ValidationError,
)

from audit_app.kernel.errors import InvalidInput
from sessions_app.identity.device_codes import LONGEST_NAME
from sessions_app.services import LONGEST_TEXT, LONGEST_TITLE
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.serializers import CamelCaseSerializer
from tools_app.storage.memories import MAX_KEY_CHARACTERS, MAX_TEXT_BYTES

LONGEST_KEY = 200
LONGEST_FRAME = 64 * 1024  # characters
_SESSION_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


class WebhookBody(CamelCaseSerializer):
    message = CharField(max_length=LONGEST_TEXT)


class RenameBody(CamelCaseSerializer):
    name = CharField(max_length=LONGEST_TITLE)


class PairBody(Serializer[Any]):
    code = CharField(max_length=40)
    device_name = CharField(max_length=LONGEST_NAME, default="", allow_blank=True, allow_null=True)
    device_type = CharField(max_length=LONGEST_NAME, default="", allow_blank=True, allow_null=True)


class MemoryBody(Serializer[Any]):
    key = CharField(max_length=MAX_KEY_CHARACTERS)
    content = CharField(max_length=MAX_TEXT_BYTES, trim_whitespace=False)
    category = CharField(max_length=60, default="", allow_blank=True, allow_null=True)
    agent = CharField(max_length=120, default="", allow_blank=True, allow_null=True)


class MemoryQuery(Serializer[Any]):
    query = CharField(max_length=1000, default="", allow_blank=True)
    category = CharField(max_length=60, default="", allow_blank=True)
    since = DateTimeField(default=None)
    until = DateTimeField(default=None)
    agent = CharField(max_length=120, default="", allow_blank=True)


class _Job(Serializer[Any]):
    """The fields of a job that a schedule of Komand has. A restriction that would not hold must not be dropped."""

    name = CharField(max_length=60, default=None, allow_null=True)
    tz = CharField(max_length=64, default=None, allow_null=True)
    job_type = ChoiceField(choices=["agent"], default="agent", allow_null=True)
    session_target = ChoiceField(choices=["isolated"], default="isolated", allow_null=True)
    delete_after_run = ChoiceField(choices=[False], default=False, allow_null=True)
    uses_memory = ChoiceField(choices=[True], default=True, allow_null=True)
    delivery = DictField(default=dict, help_text="Only with `mode` none.")

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(data.keys() - self.fields.keys()) if isinstance(data, dict) else []
        if unknown:
            raise ValidationError({str(name)[:60]: ["Schedules of Komand do not have this field."] for name in unknown})
        return super().to_internal_value(data)

    def validate_delivery(self, value: dict[str, Any]) -> dict[str, Any]:
        if value.get("mode", "none") != "none":
            raise ValidationError("Komand answers in the session of the schedule. Leave `delivery` out.")
        return value


class JobBody(_Job):
    agent = CharField(max_length=120)
    schedule = CharField(max_length=120)
    prompt = CharField(max_length=LONGEST_TEXT)


class JobChanges(_Job):
    agent = CharField(max_length=120, default=None, allow_null=True)
    schedule = CharField(max_length=120, default=None, allow_null=True)
    prompt = CharField(max_length=LONGEST_TEXT, default=None, allow_null=True)
    clear_tz = BooleanField(default=False, allow_null=True)
    enabled = BooleanField(default=None, allow_null=True)


class RunsQuery(Serializer[Any]):
    limit = IntegerField(min_value=1, max_value=100, default=20)


class CostQuery(CamelCaseSerializer):
    from_ = DateTimeField(default=None)
    to = DateTimeField(default=None)
    agent = CharField(max_length=120, default="", allow_blank=True)


class AgentQuery(CamelCaseSerializer):
    agent = CharField(max_length=120, default="", allow_blank=True, help_text="Public id of an agent.")


@dataclass(frozen=True)
class Frame:
    """A frame of a client on the chat.

    content: of a message.
    request_id, decision: of an answer to a request for approval.
    """

    type: str
    content: str = ""
    request_id: str = ""
    decision: str = ""


def read_session_id(text: str) -> str:
    """Return the client's id of a session. Raises InvalidInput (invalid_session_id)."""
    if not _SESSION_ID.fullmatch(text):
        problem = "A session id has 1 to 128 of the characters A-Z, a-z, 0-9, '.', '_' and '-'."
        raise InvalidInput(problem, code="invalid_session_id")
    return text


def read_key(text: str) -> str:
    """Return the idempotency key of a header. Raises InvalidInput (invalid_idempotency_key)."""
    if len(text) > LONGEST_KEY or not text.isprintable():
        problem = f"An idempotency key has at most {LONGEST_KEY} printable characters."
        raise InvalidInput(problem, code="invalid_idempotency_key")
    return text


def read_frame(text: str | None) -> Frame:
    """Return a frame. Fields that its type does not have are ignored. Raises InvalidInput (invalid_frame)."""
    if text is None or len(text) > LONGEST_FRAME:
        raise _invalid(f"A frame is a JSON text of at most {LONGEST_FRAME:,} characters.")
    try:
        value: Any = clean(json.loads(text))
    except (ValueError, RecursionError):
        raise _invalid("The frame is not JSON.") from None
    if not isinstance(value, dict):
        raise _invalid("A frame is a JSON object.")
    match value.get("type"):
        case "message":
            return Frame("message", content=_text(value, "content"))
        case "approval_response":
            return Frame("approval_response", request_id=_text(value, "request_id"), decision=_text(value, "decision"))
        case "connect":
            return Frame("connect")
    raise _invalid("The type of a frame is message, approval_response or connect.")


def _text(value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise _invalid(f"`{name}` of a frame must be a text.")
    return found


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_frame")
