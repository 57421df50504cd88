"""Conversations of visitors by mail, through an e-mail account of the installation. Synchronous."""

import hashlib
import json
from dataclasses import replace

from django.conf import settings
from django.db import transaction

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_conversation
from sessions_app.channels import accounts
from sessions_app.channels.outbound.outbox import Destination, plan_notice
from sessions_app.chat_copies.chat_copy import ChatCopy, CopiedQuestion, CopiedText, CopiedTurn
from sessions_app.chat_copies.copy_reader import read_copy
from sessions_app.chat_copies.exports import as_json, as_markdown
from sessions_app.identity import rate_limits
from sessions_app.identity.rate_limits import Limit
from sessions_app.models import ChannelAccount
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.platforms.messages import Chat, Target
from sessions_app.surfaces.webchat.visitor_admission import Site

_MAIL = "email"
_MOST_CHARACTERS = 90_000  # about one mail
_SHOWN = (CopiedText, CopiedQuestion)
_ABOUT = (
    "Someone asked for this copy of a conversation to be sent to your address. If it was not you, ignore this mail."
)


def send_transcript(site: Site, visitor: Visitor, address: str) -> None:
    """Have a conversation sent to an address. The same text is sent there once.

    Raises NotFound (no_transcripts, no_conversation), RateLimited.
    """
    account = _mail_account(site)
    session = access_conversation(site.key_of(visitor))
    _count(site, visitor, address)
    heading = str(site.adapter.account.config.get("title") or "Chat")
    copy = _shown(read_copy(session), heading)
    digest = hashlib.sha256(json.dumps([address.lower(), as_json(copy)["turns"]]).encode()).hexdigest()[:40]
    target = Target(Chat(address), reference={"subject": f"Your conversation: {heading}"})
    with transaction.atomic():
        plan_notice(
            Destination(account, target), f"transcript:{session.pk}:{digest}", f"{_ABOUT}\n\n{as_markdown(copy)}"
        )


def _mail_account(site: Site) -> ChannelAccount:
    name = str(site.adapter.account.config.get("transcripts_from") or "")
    account = accounts.find_account(_MAIL, name) if name else None
    if account is None:
        raise NotFound("This chat sends no mails.", code="no_transcripts")
    return account


def _count(site: Site, visitor: Visitor, address: str) -> None:
    """Count a mail by visitor, by address and by account. Raises RateLimited."""
    permits, seconds = settings.KOMAND_TRANSCRIPT_LIMIT, settings.KOMAND_TRANSCRIPT_WINDOW_SECONDS
    one, all_of_them = Limit("transcript", permits, seconds), Limit("transcripts", 20 * permits, seconds)
    recipient = hashlib.sha256(address.lower().encode()).hexdigest()
    rate_limits.take(one, f"{site.account.pk}:{visitor.id}")
    rate_limits.take(one, f"to:{recipient}")
    rate_limits.take(all_of_them, str(site.account.pk))


def _shown(copy: ChatCopy, heading: str) -> ChatCopy:
    """Return what the visitor has seen of a conversation: no tools, workstreams and causes of failures."""
    turns: list[CopiedTurn] = []
    size = 0
    for turn in reversed(copy.turns):
        parts = tuple(part for part in turn.parts if isinstance(part, _SHOWN))
        turns.append(replace(turn, parts=parts, problem="The answer is incomplete." if turn.problem else ""))
        size += len(turn.question) + sum(len(part.text) for part in parts if isinstance(part, CopiedText))
        if size > _MOST_CHARACTERS:
            break
    has_more = copy.has_more or len(turns) < len(copy.turns)
    return replace(copy, title=heading, turns=tuple(reversed(turns)), files=(), has_more=has_more)
