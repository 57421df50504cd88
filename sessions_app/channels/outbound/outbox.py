"""The outbox: stores deliveries, an answer's in the transaction that ends its run, and notices of our own."""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from agents_app.models import IS_OPEN as RUN_IS_OPEN
from agents_app.models import Run
from audit_app.kernel.advisory_lock import serialize
from sessions_app.channels import accounts, file_links
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.channels.outbound import answer_files, transitions
from sessions_app.channels.outbound.answer_files import NO_FILES
from sessions_app.conversation import citations
from sessions_app.conversation.delivery_port import CitingText
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.models import IS_OPEN, ChannelAccount, Delivery, InboundMessage, Session
from sessions_app.platforms.messages import Button, Capabilities, Chat, Rendered, Target
from sessions_app.platforms.rendering.renderer import MOST_PARTS, with_absolute_links
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ApprovalView
from tools_app.types.questions import InputView

R = TypeVar("R", ApprovalView, InputView)
logger = logging.getLogger(__name__)

_LONGEST_ORDERING_KEY = 200
_WITHDRAWN = Rendered("(This part was withdrawn.)", "(This part was withdrawn.)")


@dataclass(frozen=True)
class Destination:
    """The account and the place that a run's answer is sent to."""

    account: ChannelAccount
    target: Target

    @property
    def ordering_key(self) -> str:
        """The reply to a button press has a key of its own: it neither waits for messages nor holds them up."""
        press_id = self.target.press_id
        return ordering_key_of(self.account.pk, Chat(f"press:{press_id}") if press_id else self.target.chat)


@dataclass(frozen=True)
class _Message:
    """A message, stored as one delivery for each of its parts. key: makes it unique; empty for the answer of a run."""

    destination: Destination
    kind: str
    session: Session | None
    run_id: UUID | None = None
    key: str = ""

    def delivery(self, rendered: Rendered, capabilities: Capabilities, part: int = 0, parts: int = 1) -> Delivery:
        """Return the unsaved delivery of one part. Its times are the database's, which also decides when it is due."""
        destination, run_id = self.destination, self.run_id
        of_run = dedupe_key(run_id, part, destination.ordering_key) if run_id else ""
        return Delivery(
            dedupe_key=f"{self.key}:{part}" if self.key else of_run,
            account=destination.account,
            session=self.session,
            run_id=run_id,
            ordering_key=destination.ordering_key,
            target=destination.target.as_json(),
            kind=self.kind,
            part=part,
            parts=parts,
            **asdict(rendered),
            ready_at=Now(),
            created_at=Now(),
            expires_at=Now() + timedelta(seconds=capabilities.lifetime_seconds),
        )

    def deliveries(self, markdown: str, shown: int = 0) -> tuple[list[Delivery], Capabilities]:
        """Return the unsaved deliveries of all parts, and what the channel can do in that chat.

        shown: the number of messages that show previews: each becomes a part of the text.
        """
        parts, capabilities = _render(markdown, self.destination, shown)
        if 0 < capabilities.most_parts < len(parts):
            parts = [*parts[: capabilities.most_parts], self._rest(parts[capabilities.most_parts :])]
        rows = [self.delivery(rendered, capabilities, part, len(parts)) for part, rendered in enumerate(parts)]
        return rows, capabilities

    def _rest(self, missing: Sequence[Rendered]) -> Rendered:
        """Return the text in place of parts that are not sent: a link to the whole answer, if there can be one."""
        link = file_links.make_for_answer(self.run_id, self.session.pk) if self.run_id and self.session else ""
        number = sum(len(part.text) for part in missing)
        note = (
            f"The whole answer: {link}" if link else f"(Too long: the remaining {number:,} characters were not sent.)"
        )
        return Rendered(note, note)

    def file_deliveries(
        self, files: Sequence[ArtifactView], capabilities: Capabilities, after: int
    ) -> Iterator[Delivery]:
        """Yield the unsaved deliveries of files of the session. after: the number of parts before them."""
        for part, file in enumerate(files, start=after):
            row = self.delivery(Rendered("", "", answer_files.name_of(file)), capabilities, part)
            row.artifact_id = file.id
            yield row


def ordering_key_of(account_id: UUID, chat: Chat) -> str:
    """Return the key of one conversation of an account. Deliveries of one key are sent one at a time, in order."""
    place = f"{chat.id}:{chat.thread_id}" if chat.thread_id else chat.id
    if len(place) > _LONGEST_ORDERING_KEY:
        place = f"sha256:{hashlib.sha256(place.encode()).hexdigest()}"
    return f"{account_id}:{place}"


def find_destination(session: Session, run_id: UUID) -> Destination | None:
    """Return the place that the run's message came from, or None if no channel's message led to the run."""
    if session.channel in STORED_CHANNELS:
        return None
    rows = InboundMessage.objects.select_related("account").order_by("-id")
    # The retry of a failed run has no message of its own: it answers the session's last one.
    origin = rows.filter(run_id=run_id).first() or rows.filter(session=session, reason="").first()
    if origin is None:
        return None
    metadata = origin.metadata
    chat = Chat(origin.chat_id, metadata.get("chatType") or "direct", metadata.get("threadId") or "")
    target = Target(chat, reply_to=origin.message_id, reference=metadata.get("reference") or {})
    return Destination(origin.account, target)


def may_be_reached(session_id: str) -> Exists:
    """Return a query condition: the session belongs to an enabled channel account. session_id: the field's name."""
    messages = InboundMessage.objects.filter(session_id=OuterRef(session_id), account__is_enabled=True)
    return Exists(messages.order_by())


def with_destinations(requests: Iterable[R]) -> Iterator[tuple[R, Session, Destination]]:
    """Yield the requests of runs whose answers go to an enabled channel account, with session and destination."""
    known = list(requests)
    rows = Session.objects.select_related("agent").exclude(channel__in=STORED_CHANNELS)
    sessions = rows.in_bulk({request.session_id for request in known})
    for request in known:
        session = sessions.get(request.session_id)
        destination = find_destination(session, request.run_id) if session else None
        if session and destination and destination.account.is_enabled:
            yield request, session, destination


def plan_answer(
    session: Session, run_id: UUID, texts: Sequence[CitingText], *, failure: str = "", has_files: bool = True
) -> int:
    """Store the deliveries of a run's answer. Idempotent. Returns the number of parts, 0 if nothing is to be sent.

    texts: texts of the steps, of which those that `plan_step` stored are left out.
    failure: why the run failed, for the sender.
    has_files: the run may have written files. They follow the text, as messages of their own or as links in it.

    In the caller's transaction. A preview that is shown already becomes the first part.
    """
    destination = find_destination(session, run_id)
    if destination is None:
        return 0
    keys = [draft_key(destination, run_id, part) for part in range(MOST_PARTS)]
    # Locked: a preview that opens a further draft waits until the answer is stored, and then opens none.
    drafts = list(Delivery.objects.select_for_update(no_key=True).filter(dedupe_key__in=keys).order_by("part"))
    if drafts and drafts[0].status != "draft":
        return drafts[0].parts
    capabilities = accounts.pure.capabilities(destination.account, destination.target.chat) or Capabilities()
    sent_steps = _sent_steps(destination, run_id) if capabilities.drafts == "multi_message" else set()
    rest = [text for step, text in enumerate(texts) if step not in sent_steps]
    files = answer_files.find(session.id, run_id, capabilities) if has_files else NO_FILES
    blocks = (citations.for_people(rest).strip(), f"⚠️ {failure}" if failure else "", files.links)
    markdown = "\n\n".join(filter(None, blocks)) or (files.names if files.sent else "")
    if not markdown and not drafts:
        return len(sent_steps)
    message = _Message(destination, "failure" if failure else "answer", session, run_id)
    rows, _ = message.deliveries(markdown or "Stopped.", len(drafts))
    rows = [*rows, *message.file_deliveries(files.sent, capabilities, after=len(rows))]
    for row in rows:
        row.parts = len(rows)
    is_edited = capabilities.drafts == "edit"
    Delivery.objects.bulk_create(rows[len(drafts) :], ignore_conflicts=is_edited)
    if drafts or is_edited:  # another process may have opened a draft since the query above
        for row in rows[: max(len(drafts), 1)]:
            transitions.finish_draft(row)
    delivery_nudge.send_on_commit()
    return len(rows)


def plan_step(destination: Destination, session: Session, run_id: UUID, step: int, markdown: str) -> None:
    """Store the text of a recorded step as messages of its own, unless the run's answer is stored. Idempotent.

    Owns its transaction. The answer leaves this text out.
    """
    message = _Message(destination, "step", session, run_id, key=_step_key(destination, run_id, step))
    rows, _ = message.deliveries(markdown)
    with transaction.atomic():
        serialize(f"answer of {run_id}")
        if Run.objects.filter(RUN_IS_OPEN, pk=run_id).exists():
            _store(rows)


def _sent_steps(destination: Destination, run_id: UUID) -> set[int]:
    """Return the steps whose texts are messages of their own, in the caller's transaction, which stores the answer."""
    serialize(f"answer of {run_id}")
    rows = Delivery.objects.filter(run_id=run_id, kind="step", part=0, ordering_key=destination.ordering_key)
    keys = rows.exclude(status__in=("failed", "expired")).values_list("dedupe_key", flat=True)
    return {int(key.split(":step:")[1].split(":")[0]) for key in keys}


def _step_key(destination: Destination, run_id: UUID, step: int) -> str:
    return f"{run_id}:step:{step}:{hashlib.sha256(destination.ordering_key.encode()).hexdigest()[:32]}"


def plan_notice(destination: Destination, key: str, markdown: str, *, session: Session | None = None) -> None:
    """Store the deliveries of a notice of our own, in the caller's transaction. key: a second call does nothing."""
    kind = "press" if destination.target.press_id else "notice"
    rows, _ = _Message(destination, kind, session, key=key).deliveries(markdown)
    _store(rows)


def plan_run_notice(session: Session, run_id: UUID, key: str, markdown: str) -> None:
    """Store a notice where the answer of a run is sent, if it is sent anywhere. As `plan_notice`."""
    if destination := find_destination(session, run_id):
        plan_notice(destination, key, markdown, session=session)


def plan_question(
    destination: Destination, session: Session, question_id: UUID, markdown: str, buttons: Sequence[Button]
) -> None:
    """Store a question of an agent, in the caller's transaction. Idempotent. Its buttons go when it is closed."""
    rows, _ = _Message(destination, "notice", session, key=question_key(question_id)).deliveries(markdown)
    rows[-1].question_id = question_id if buttons else None
    rows[-1].buttons = _as_json(buttons)
    _store(rows)


def question_key(question_id: UUID) -> str:
    return f"question:{question_id}"


def plan_prompt(
    destination: Destination,
    session: Session,
    approval_id: UUID,
    markdown: str,
    buttons: Sequence[Button],
    expires_at: datetime,
) -> None:
    """Store an approval request, not sent after `expires_at`. In the caller's transaction. Idempotent."""
    rows, _ = _Message(destination, "approval", session, key=f"approval:{approval_id}").deliveries(markdown)
    for row in rows:
        row.expires_at = expires_at
    rows[-1].approval_id = approval_id
    rows[-1].buttons = _as_json(buttons)
    _store(rows)


def plan_outcome(prompt: Delivery, destination: Destination, markdown: str) -> None:
    """Store the outcome of a prompt, in the caller's transaction: an edit of the prompt, where supported."""
    key = f"outcome:{prompt.approval_id or prompt.question_id}"
    message = _Message(destination, prompt.kind, prompt.session, key=key)
    rows, _ = message.deliveries(markdown)
    rows[0].provider_message_id = prompt.provider_message_id
    _store(rows)


def _as_json(buttons: Sequence[Button]) -> list[list[str]]:
    return [[button.label, button.action_id, button.style] for button in buttons]


def _store(rows: Sequence[Delivery]) -> None:
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    delivery_nudge.send_on_commit()


def is_ordering_key_busy(ordering_key: str) -> bool:
    """Return whether deliveries of that key are still to be sent, before any new one."""
    return Delivery.objects.filter(IS_OPEN, ordering_key=ordering_key).exists()


def open_draft(destination: Destination, session: Session, run_id: UUID, owner: UUID, part: int = 0) -> Delivery | None:
    """Claim the delivery in whose place this process may show a preview of a part of the run's answer.

    Returns None if another process shows it or the answer is stored. Nothing is sent under its ordering key until
    `transitions.release_draft`.
    """
    message = _Message(destination, "answer", session, run_id)
    row = message.delivery(Rendered("", ""), Capabilities(), part)
    return transitions.open_draft(row, owner, draft_key(destination, run_id))


def draft_key(destination: Destination, run_id: UUID, part: int = 0) -> str:
    """Return the key of the delivery in whose place a run's previews are shown: a part of its answer."""
    return dedupe_key(run_id, part, destination.ordering_key)


def draft_id_of(run_id: UUID) -> int:
    """Return the number by which a platform with previews of its own knows those of a run. Never 0."""
    return run_id.int % 2_000_000_000 + 1


def dedupe_key(run_id: UUID, part: int, ordering_key: str) -> str:
    return f"{run_id}:{part}:{hashlib.sha256(ordering_key.encode()).hexdigest()[:32]}"


def _render(markdown: str, destination: Destination, shown: int) -> tuple[Sequence[Rendered], Capabilities]:
    """Return the parts, and the capabilities there. shown: as many messages show previews, and are parts of the text.

    The text may be shorter than what they show: a call of the model that failed is repeated.
    """
    chat, markdown = destination.target.chat, with_absolute_links(markdown, settings.KOMAND_PUBLIC_URL)
    try:
        adapter = accounts.pure.get(destination.account)
        parts = adapter.render(markdown, chat)
        if shown > 1 and parts[-1].filename:
            parts = (*adapter.render_beginning(markdown, chat, max(shown, len(parts) - 1)), parts[-1])
        return [*parts, *[_WITHDRAWN] * (shown - len(parts))], adapter.capabilities(chat)
    except (DatabaseError, InterfaceError):
        raise
    except Exception as error:  # a broken account or adapter must not keep a run from ending; the sender reports it
        logger.warning("%s cannot be used", destination.account, exc_info=error)
        return [Rendered(markdown, markdown), *[_WITHDRAWN] * (shown - 1)], Capabilities()
