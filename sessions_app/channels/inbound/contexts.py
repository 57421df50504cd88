"""The context of a channel's message: its author in a group, and texts of others that belong to it."""

import re
from collections.abc import Iterator
from dataclasses import replace

from sessions_app.channels.inbound import group_messages
from sessions_app.conversation.inbound_record import storable_key
from sessions_app.conversation.message_context import AUTHOR, LONGEST_OWN, LONGEST_TEXT, MessageContext, quoted_lines
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Delivery, GroupMessage, InboundMessage, Pairing, Session
from sessions_app.platforms.messages import ChannelMessage, Quoted, clean_name
from sessions_app.services import LONGEST_TEXT as LONGEST_MESSAGE

_MOST_QUOTED = 10
_WORD = re.compile(r"\w+")


def context_of(account: ChannelAccount, incoming: ChannelMessage, key: SessionKey) -> MessageContext | None:
    """Return the context of a message, None if it has none. key: of its session. Reads only."""
    is_group = incoming.chat.type != "direct"
    before = group_messages.lines_before(account, incoming, key) if is_group else ""
    quotes = [quoted for quoted in _quotes(account, incoming) if quoted.text.strip()]
    texts = [f"Written in the group before, not to you, by\n{before}"] if before else []
    texts += map(_described, quotes)
    if incoming.forwarded_from is not None:
        texts.append(_forwarded(incoming))
    if incoming.surroundings:
        texts.append(quoted_lines(incoming.surroundings))
    if is_group:
        texts.append(f"{AUTHOR}{_author(account, incoming, key)}")
    is_foreign = bool(before or incoming.surroundings) or incoming.forwarded_from is not None
    is_foreign = is_foreign or not all(quoted.is_known for quoted in quotes)
    return MessageContext("\n".join(texts), is_foreign) if texts else None


def _author(account: ChannelAccount, incoming: ChannelMessage, key: SessionKey) -> str:
    """Return the name of the author, which some platforms do not send: then the known one, else the id."""
    if name := clean_name(incoming.sender_name):
        return name
    paired = Pairing.objects.filter(account=account, sender_id=incoming.sender_id).values_list("sender_name", flat=True)
    if known := paired.first():
        return known
    # Two queries: joined, the newest messages of all sessions would be read.
    session_id = Session.objects.filter(key=str(key)).values_list("pk", flat=True).first()
    if session_id is None:
        return incoming.sender_id
    rows = InboundMessage.objects.filter(session_id=session_id, sender_id=incoming.sender_id).exclude(sender_name="")
    return rows.order_by("-id").values_list("sender_name", flat=True).first() or incoming.sender_id


def _quotes(account: ChannelAccount, incoming: ChannelMessage) -> Iterator[Quoted]:
    """Yield the quotes of the message with their texts, as far as they are known."""
    for quoted in incoming.quoted[:_MOST_QUOTED]:
        if not quoted.text:
            found = _look_up(account, incoming, quoted)
        elif quoted.is_known or not quoted.message_id:
            found = quoted
        else:
            found = replace(quoted, is_known=_contains(_sent_text(account, incoming, quoted), quoted.text))
        if found:
            yield found


def _contains(sent: str, quoted: str) -> bool:
    """Return whether a text that we have sent contains the words of a quote, which programs wrap anew."""
    words = _WORD.findall(quoted)
    return bool(words) and f" {' '.join(words)} " in f" {' '.join(_WORD.findall(sent))} "


def _described(quoted: Quoted) -> str:
    how = "Forwarded with the message" if quoted.is_forward else "Quoted by the message"
    author = clean_name(quoted.author) or ("you" if quoted.is_known else "somebody else")
    longest = LONGEST_MESSAGE if quoted.is_forward else LONGEST_OWN if quoted.is_known else LONGEST_TEXT
    return f"{how}, written by {author}:\n{quoted_lines(quoted.text, longest)}"


def _forwarded(incoming: ChannelMessage) -> str:
    author = clean_name(incoming.forwarded_from or "") or "somebody else"
    return f"Forwarded as the message, written by {author}:\n{quoted_lines(incoming.text, LONGEST_MESSAGE)}"


def _look_up(account: ChannelAccount, incoming: ChannelMessage, quoted: Quoted) -> Quoted | None:
    """Return the quoted message as it is stored here, None if it is not. Only messages of the same chat are read."""
    chat_id = incoming.chat.id
    if quoted.message_id and (text := _sent_text(account, incoming, quoted)):
        return Quoted(text, is_known=True)
    if not quoted.key:
        return None
    key = storable_key(quoted.key)
    row = InboundMessage.objects.filter(keys__account=account, keys__key=key, chat_id=chat_id).first()
    if row:
        is_known = row.sender_id == incoming.sender_id and "forwardedFrom" not in row.metadata
        return Quoted(row.text, row.sender_name or row.sender_id, is_known=is_known)
    heard = GroupMessage.objects.filter(account=account, key=key, chat_id=chat_id).first()
    return Quoted(heard.text, heard.sender_name or heard.sender_id) if heard else None


def _sent_text(account: ChannelAccount, incoming: ChannelMessage, quoted: Quoted) -> str:
    """Return the text of our message that is quoted, empty if there is none in the chat."""
    place = {"account": account, "target__chat": incoming.chat.id}
    sent = Delivery.objects.filter(**place, provider_message_id=quoted.message_id)
    return sent.values_list("text", flat=True).first() or ""
