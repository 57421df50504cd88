"""Writes the rows of the outbox: an answer's parts in the transaction that ends its run, and notices of our own."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, InterfaceError
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from sessions_app.channels import accounts
from sessions_app.channels.messages import Button, Capabilities, Chat, Rendered, Target
from sessions_app.channels.nudges import deliveries as bell
from sessions_app.channels.outbound import transitions
from sessions_app.models import IS_OPEN, ChannelAccount, Delivery, InboundMessage, Session

logger = logging.getLogger(__name__)

_LONGEST_LANE = 200
# Channels whose messages are read where they are stored: nothing has to be sent.
STORED_CHANNELS = ("WebChat", "Api")


@dataclass(frozen=True)
class Destination:
    """Where the answer of a run goes: stored with the message that it answers, never guessed."""

    account: ChannelAccount
    target: Target

    @property
    def ordering_key(self) -> str:
        """What answers a press waits for no message, and none for it."""
        press_id = self.target.press_id
        return ordering_key_of(self.account.pk, Chat(f"press:{press_id}") if press_id else self.target.chat)


def ordering_key_of(account_id: UUID, chat: Chat) -> str:
    """One conversation of an account: within it, one message at a time and in order."""
    place = f"{chat.id}:{chat.thread_id}" if chat.thread_id else chat.id
    if len(place) > _LONGEST_LANE:
        place = f"sha256:{hashlib.sha256(place.encode()).hexdigest()}"
    return f"{account_id}:{place}"


def find_destination(session: Session, run_id: UUID) -> Destination | None:
    """Where the run's answer goes; None when no channel's message led to it."""
    if session.channel in STORED_CHANNELS:
        return None
    rows = InboundMessage.objects.select_related("account").order_by("-id")
    # A run that tries again what another one failed at has no message of its own: it answers the session's last.
    origin = rows.filter(run_id=run_id).first() or rows.filter(session=session, reason="").first()
    if origin is None:
        return None
    metadata = origin.metadata
    chat = Chat(origin.chat_id, metadata.get("chatType") or "direct", metadata.get("threadId") or "")
    target = Target(chat, reply_to=origin.message_id, reference=metadata.get("reference") or {})
    return Destination(origin.account, target)


def may_be_reached(session_id: str) -> Exists:
    """A condition: the session whose id that field has is held through an account that is in use."""
    messages = InboundMessage.objects.filter(session_id=OuterRef(session_id), account__is_enabled=True)
    return Exists(messages.order_by())


def sessions_of_channels(session_ids: Iterable[UUID]) -> dict[UUID, Session]:
    """Those of the sessions that are held through channels, with their agents."""
    rows = Session.objects.select_related("agent").exclude(channel__in=STORED_CHANNELS)
    return rows.in_bulk(set(session_ids))


def plan_answer(session: Session, run_id: UUID, markdown: str, *, failure: str = "") -> int:
    """Store what is to go out when a run ends; the count of its parts, 0 when nothing has to be sent.

    markdown: all that the agent said; failure: why the run failed, in words for people. In the caller's transaction; a
    preview that is shown already becomes the first part. A second call for the same run changes nothing.
    """
    destination = find_destination(session, run_id)
    if destination is None:
        return 0
    draft = Delivery.objects.filter(dedupe_key=draft_key(destination, run_id)).first()
    if draft is not None and draft.status != "draft":
        return draft.parts
    said = [part for part in (markdown.strip(), f"⚠️ {failure}" if failure else "") if part]
    if not said and draft is None:
        return 0
    parts, capabilities = _render("\n\n".join(said) or "Stopped.", destination)
    rows = [
        _row(
            destination,
            capabilities,
            rendered,
            dedupe_key(run_id, index, destination.ordering_key),
            run_id,
            session,
            kind="failure" if failure else "answer",
            part=index,
            parts=len(parts),
        )
        for index, rendered in enumerate(parts)
    ]
    first, is_edited = rows[0], capabilities.drafts == "edit"
    Delivery.objects.bulk_create(rows if draft is None else rows[1:], ignore_conflicts=is_edited)
    if draft is not None or is_edited:  # a preview may have been begun since we looked
        transitions.finish_draft(first)
    bell.ring()
    return len(parts)


def plan_notice(
    destination: Destination, key: str, markdown: str, *, session: Session | None = None, kind: str = "notice"
) -> None:
    """Store a message of our own, no agent's. key: makes it once. In the caller's transaction."""
    Delivery.objects.bulk_create(_notices(destination, key, markdown, session, kind), ignore_conflicts=True)
    bell.ring()


def plan_prompt(
    destination: Destination,
    session: Session,
    approval_id: UUID,
    markdown: str,
    buttons: Sequence[Button],
    expires_at: datetime,
) -> None:
    """Store a request for approval, once; too late, it is not sent any more. In the caller's
    transaction."""
    rows = _notices(destination, f"approval:{approval_id}", markdown, session, "approval")
    for row in rows:
        row.expires_at = expires_at
    rows[-1].approval_id = approval_id
    rows[-1].buttons = [[button.label, button.action_id, button.style] for button in buttons]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    bell.ring()


def plan_outcome(prompt: Delivery, destination: Destination, markdown: str) -> None:
    """Store what became of a request: it takes the place of the prompt where that can be edited."""
    key = f"outcome:{prompt.approval_id}"
    rows = _notices(destination, key, markdown, prompt.session, "approval")
    rows[0].provider_message_id = prompt.provider_message_id
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    bell.ring()


def is_ordering_key_busy(ordering_key: str) -> bool:
    """Whether something is still to be sent there, which must come before whatever is new."""
    return Delivery.objects.filter(IS_OPEN, ordering_key=ordering_key).exists()


def open_draft(destination: Destination, session: Session, run_id: UUID, owner: UUID) -> Delivery | None:
    """The row in whose place this process may show a preview of the run's answer; None: another one does, or it is
    over. Owns it until `release_draft`: until then nothing goes out in its lane."""
    key = draft_key(destination, run_id)
    row = _row(destination, Capabilities(), Rendered("", ""), key, run_id, session, kind="answer", part=0, parts=1)
    return transitions.open_draft(row, owner)


def draft_key(destination: Destination, run_id: UUID) -> str:
    """Names the row in whose place a run's previews are shown: the first part of its answer."""
    return dedupe_key(run_id, 0, destination.ordering_key)


def draft_id_of(run_id: UUID) -> int:
    """By which a platform that shows previews itself knows those of a run. Never 0."""
    return run_id.int % 2_000_000_000 + 1


def dedupe_key(run_id: UUID, part: int, ordering_key: str) -> str:
    return f"{run_id}:{part}:{hashlib.sha256(ordering_key.encode()).hexdigest()[:32]}"


def _render(markdown: str, destination: Destination) -> tuple[Sequence[Rendered], Capabilities]:
    chat = destination.target.chat
    try:
        adapter = accounts.pure.get(destination.account)
        return adapter.render(markdown, chat), adapter.capabilities(chat)
    except (DatabaseError, InterfaceError):
        raise
    except Exception as error:  # an account or adapter that is broken must not keep a run from ending; the sender tells
        logger.warning("%s cannot be used", destination.account, exc_info=error)
        return [Rendered(markdown, markdown)], Capabilities()


def _notices(destination: Destination, key: str, markdown: str, session: Session | None, kind: str) -> list[Delivery]:
    parts, capabilities = _render(markdown, destination)
    return [
        _row(
            destination,
            capabilities,
            rendered,
            f"{key}:{index}",
            None,
            session,
            kind=kind,
            part=index,
            parts=len(parts),
        )
        for index, rendered in enumerate(parts)
    ]


def _row(
    destination: Destination,
    capabilities: Capabilities,
    rendered: Rendered,
    key: str,
    run_id: UUID | None,
    session: Session | None,
    *,
    kind: str,
    part: int,
    parts: int,
) -> Delivery:
    # By the database's clock, which also decides when it is due.
    return Delivery(
        dedupe_key=key,
        account=destination.account,
        session=session,
        run_id=run_id,
        ordering_key=destination.ordering_key,
        target=destination.target.as_json(),
        kind=kind,
        part=part,
        parts=parts,
        text=rendered.text,
        body=rendered.body,
        filename=rendered.filename,
        ready_at=Now(),
        created_at=Now(),
        expires_at=Now() + timedelta(seconds=capabilities.lifetime_seconds),
    )
