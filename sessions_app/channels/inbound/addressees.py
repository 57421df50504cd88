"""Decision whether a message of a group is for us, by the account's setting `groups`."""

from sessions_app.channels.inbound import pairing_codes
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Turn
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.messages import ChannelMessage, is_command


def is_addressed(account: ChannelAccount, adapter: ChannelAdapter, incoming: ChannelMessage, key: SessionKey) -> bool:
    """Return whether a message of a group is for us. key: of its session."""
    match account.config.get("groups") or ("thread" if adapter.follows_threads else "reply"):
        case "off":
            return False
        case "all":
            return True
        case "mention":
            return incoming.mentions_bot or is_command(incoming.text)
        case "thread":
            return incoming.is_addressed or _follows_answer(account, incoming, key)
        case _:
            return incoming.is_addressed


def _follows_answer(account: ChannelAccount, incoming: ChannelMessage, key: SessionKey) -> bool:
    """Return whether the message continues a thread in which we have answered. Bots and refused senders never do."""
    is_open = incoming.thread_id and not (incoming.mentions_others or incoming.is_from_bot)
    if not is_open or not (incoming.text.strip() or incoming.attachments):
        return False
    if not pairing_codes.may_write(account, incoming.sender_id, incoming.chat.id):
        return False
    return Turn.objects.filter(session__key=str(key), is_answer=True).exists()
