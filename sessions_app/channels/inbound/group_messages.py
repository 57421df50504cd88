"""Messages of groups that are not for us: stored for some hours, as context of the next message that is."""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents_app.prompt import tokens
from audit_app.kernel.ids import new_id
from audit_app.kernel.shorten import shorten
from sessions_app.attachments import model_text
from sessions_app.conversation.inbound_record import storable_key
from sessions_app.conversation.message_context import LONGEST_TEXT, quoted_lines
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, GroupMessage, InboundMessage, Session
from sessions_app.platforms.messages import ChannelMessage, clean_name

_TOKENS, _HOURS = 2000, 24
_MOST = 100  # of a chat or thread


def keep(account: ChannelAccount, incoming: ChannelMessage) -> None:
    """Store a message that is not for us, if the account takes them into account. Idempotent. Owns its transaction."""
    names = ((file.kind, model_text.clean_filename(file.filename or "")) for file in incoming.attachments)
    text = (incoming.text.strip() or model_text.file_list(names)).replace("\0", "")
    hours = _hours(account)
    if not (_budget(account) and hours and text) or incoming.is_from_bot or account.config.get("groups") == "off":
        return
    row = GroupMessage(
        id=new_id(),
        account=account,
        key=_key_of(incoming),
        chat_id=incoming.chat.id[:200],
        thread_id=incoming.thread_id[:200],
        sender_id=incoming.sender_id[:200],
        sender_name=clean_name(incoming.sender_name),
        text=shorten(text, LONGEST_TEXT),
        sent_at=incoming.sent_at,
        expires_at=timezone.now() + timedelta(hours=hours),
    )
    with transaction.atomic():
        GroupMessage.objects.bulk_create([row], ignore_conflicts=True)
        same = GroupMessage.objects.filter(account=account, chat_id=row.chat_id, thread_id=row.thread_id)
        GroupMessage.objects.filter(pk__in=list(same.order_by("-id").values_list("pk", flat=True)[_MOST:])).delete()


def lines_before(account: ChannelAccount, incoming: ChannelMessage, key: SessionKey) -> str:
    """Return the messages of the chat or thread since the session's last one, oldest first. Empty if there are none.

    A thread also has the message with which it began.
    """
    left = _budget(account)
    if not left:
        return ""
    in_place = Q(thread_id=incoming.thread_id)
    if incoming.thread_id and incoming.reply_to_message_id:
        in_place |= Q(key=storable_key(f"message:{incoming.reply_to_message_id}"))
    rows = GroupMessage.objects.filter(in_place, account=account, chat_id=incoming.chat.id)
    rows = rows.filter(expires_at__gt=timezone.now())
    if since := _last_of_session(key):
        rows = rows.filter(id__gt=since)
    lines: list[str] = []
    for row in rows.order_by("-id")[:_MOST]:
        line = f"{row.sender_name or row.sender_id}, {row.sent_at:%Y-%m-%d %H:%M}:\n{quoted_lines(row.text)}"
        left -= tokens.count(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def edit(account: ChannelAccount, key: str, sender_id: str, text: str) -> int:
    """Replace the text of a stored message. Returns the number of messages."""
    rows = GroupMessage.objects.filter(account=account, key=storable_key(key), sender_id=sender_id)
    return rows.update(text=shorten(text.replace("\0", ""), LONGEST_TEXT))


def delete(account: ChannelAccount, key: str) -> int:
    """Delete a stored message. Returns the number of messages."""
    return GroupMessage.objects.filter(account=account, key=storable_key(key)).delete()[0]


def _last_of_session(key: SessionKey) -> UUID | None:
    """Return the id of the session's last message, None if it has none. Ids are in the order of time."""
    # Two queries: joined, the newest messages of all sessions would be read.
    session_id = Session.objects.filter(key=str(key)).values_list("pk", flat=True).first()
    if session_id is None:
        return None
    rows = InboundMessage.objects.filter(session_id=session_id).order_by("-id")
    return rows.values_list("pk", flat=True).first()


def _key_of(incoming: ChannelMessage) -> str:
    """Return the key by which the platform reports changes of the message."""
    return storable_key(next((key for key in incoming.keys if key.startswith("message:")), incoming.keys[-1]))


def _budget(account: ChannelAccount) -> int:
    return int(account.config.get("group_tokens", _TOKENS))


def _hours(account: ChannelAccount) -> float:
    return float(account.config.get("group_hours", _HOURS))
