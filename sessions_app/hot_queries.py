"""The statements of sessions_app that are compiled once, each with who waits for it."""

from functools import cache
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import Case, Exists, F, Min, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce, Now

from agents_app.models import IS_OPEN as IS_OPEN_RUN
from agents_app.models import IS_ROOT, ON_PERSON, Run, Step
from agents_app.types import RunStatus
from audit_app.kernel.compiled_queries import (
    CompiledInsert,
    CompiledObjects,
    CompiledQuery,
    CompiledReturning,
    CompiledUpdate,
    Param,
)
from audit_app.models import TimelineHead
from sessions_app.models import (
    IS_LINKED,
    IS_OPEN,
    ApiKey,
    Attachment,
    ChannelAccount,
    ChannelRoute,
    Checkpoint,
    Delivery,
    InboundKey,
    InboundMessage,
    PushNotice,
    PushSubscription,
    Schedule,
    ScheduleTick,
    SenderLink,
    Session,
    TaskPush,
    Turn,
)

TURNS_OF_A_PAGE = 200
NOT_COVERED = -1  # by a checkpoint: below every ordinal
_SWEPT_AT_ONCE = 100
# A user's answer to an agent's question: the model gets it as the result of its call.
_IS_ANSWER = Q(role="user", tool_call_ids__isnull=False)
_TURNS_OF_HISTORY = Turn.objects.filter(is_off_path=False).exclude(state="error").exclude(_IS_ANSWER)
_OFF_PATH = Turn.objects.filter(session=OuterRef("session"), ordinal=OuterRef("ordinal"), is_off_path=True)
ACCESSIBLE_SESSIONS = Session.objects.select_related("agent").filter(deleted_at=None)

# Every request: its API key, and its session by id or public key.
FIND_API_KEY = CompiledObjects(lambda prefix: ApiKey.objects.select_related("user").filter(prefix=prefix))
FIND_ACCESSIBLE_SESSION = CompiledObjects(lambda session_id: ACCESSIBLE_SESSIONS.filter(pk=session_id))
FIND_ACCESSIBLE_SESSION_BY_KEY = CompiledObjects(lambda key: ACCESSIBLE_SESSIONS.filter(key=key))


@cache
def find_browser_session() -> CompiledObjects[Any]:
    """Return the query of a browser's session, for every request of a page. Only web processes have its model."""
    model = apps.get_model("sessions", "Session")
    return CompiledObjects(lambda key, now: model.objects.filter(session_key=key, expire_date__gt=now))


FIND_USER = CompiledObjects(lambda user_id: User.objects.filter(pk=user_id).order_by())

# Every refresh of the page's list of sessions.
RECENT_SESSIONS = 100
IS_PINNED = Q(deleted_at=None, pinned_at__isnull=False)
_PINNED = Session.objects.filter(IS_PINNED, owner_id=OuterRef("owner_id"))
_LISTED = ACCESSIBLE_SESSIONS.annotate(has_pins=Exists(_PINNED))
LIST_RECENT_SESSIONS = CompiledObjects(
    lambda owner_id: _LISTED.filter(owner_id=owner_id).order_by("-last_active_at")[:RECENT_SESSIONS]
)

_WAITS_FOR_PERSON = Q(status=RunStatus.WAITING.value, waiting_on__in=ON_PERSON)


@cache
def activity_among(count: int) -> CompiledQuery:
    """Return the query of the open root runs, and the runs that wait for a person, of `count` sessions."""
    sessions: list[Any] = [Param(f"session_{n}") for n in range(count)]
    rows = Run.objects.filter(IS_OPEN_RUN, Q(IS_ROOT) | _WAITS_FOR_PERSON, conversation_id__in=sessions)
    return CompiledQuery(lambda: rows.order_by().values_list("conversation_id", "parent_id", "status", "waiting_on"))


# Every request of a program that sends the whole conversation: it opens a session.
INSERT_SESSION = CompiledInsert(Session)

# Every message that is received.
FIND_SESSION_BY_KEY = CompiledObjects(lambda key: Session.objects.select_related("agent").filter(key=key))
LOCK_SESSION = CompiledQuery(
    lambda session_id: (
        Session.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk=session_id)
        .values_list("next_ordinal", "agent_id", "active_branch")
    )
)
INSERT_TURNS = CompiledInsert(Turn)
FIND_TURN_BY_KEY = CompiledObjects(
    lambda key: Turn.objects.select_related("session", "run").filter(idempotency_key=key).order_by()[:1]
)
COUNT_USER_TURN = CompiledUpdate(
    lambda session_id, ordinals, now, title: (
        Session.objects.filter(pk=session_id),
        {
            "message_count": F("message_count") + 1,
            "next_ordinal": F("next_ordinal") + ordinals,
            "last_active_at": now,
            "title": Case(When(title="", then=title), default=F("title")),
        },
    )
)
# Every message that a channel delivers; its account is looked up once a second.
FIND_ENABLED_ACCOUNT = CompiledObjects(
    lambda channel, account_id: (
        ChannelAccount.objects.select_related("agent")
        .filter(channel=channel, account_id=account_id, is_enabled=True)
        .order_by()[:1]
    )
)
LIST_CHANNEL_ROUTES = CompiledObjects(
    lambda account_id, chat_id, sender_id: (
        ChannelRoute.objects.filter(
            Q(chat_id="") | Q(chat_id=chat_id), Q(sender_id="") | Q(sender_id=sender_id), account_id=account_id
        )
        .select_related("agent", "network")
        .order_by()
    )
)
INSERT_INBOUND_KEYS = CompiledInsert(InboundKey)
INSERT_INBOUND_MESSAGES = CompiledInsert(InboundMessage)

# Every viewer of the chat page, when a run is queued or has ended.
LIST_TURNS_OF_RUN = CompiledObjects(
    lambda session_id, run_id: Turn.objects.filter(session_id=session_id, run_id=run_id).order_by("ordinal", "part")
)
LIST_USER_TURNS = CompiledObjects(
    lambda session_id, run_id: Turn.objects.filter(session_id=session_id, run_id=run_id, role="user").order_by("part")
)

# Every viewer of the chat page, when a run has ended: does its answer have anything that its turns do not contain?
FIND_DETAILED_RUN = CompiledQuery(
    lambda run_id: (
        Run.objects.filter(
            Exists(Run.objects.filter(root_id=OuterRef("pk")))
            | Exists(Step.objects.filter(run_id=OuterRef("pk")).exclude(reasoning=""))
            | Exists(Checkpoint.objects.filter(run_id=OuterRef("pk")))
            | Q(fallback__isnull=False),
            pk=run_id,
        )
        .order_by()
        .values_list("pk")
    )
)

# Every run, when it is claimed: the summary of its session's older turns, the turns since then in pages, newest first,
# pinned turns that these leave out, and its user turns.


def _checkpoint(session_id: Any, ordinal: Any) -> QuerySet[Checkpoint]:
    rows = Checkpoint.objects.filter(~Exists(_OFF_PATH), session_id=session_id, ordinal__lt=ordinal)
    return rows.order_by("-ordinal", "-id")[:1]


FIND_CHECKPOINT = CompiledObjects(_checkpoint)
# Whole rows of 200 turns took four times as long.
HISTORY_COLUMNS = (
    "pk",
    "run_id",
    "ordinal",
    "part",
    "role",
    "content",
    "attached",
    "tool_calls",
    "tool_call_id",
    "error_code",
    "is_pinned",
)
LIST_NEWEST_TURNS = CompiledQuery(
    lambda session_id, ordinal: (
        _TURNS_OF_HISTORY.annotate(
            covered=Coalesce(Subquery(_checkpoint(session_id, ordinal).values("ordinal")), NOT_COVERED)
        )
        .filter(session_id=session_id, ordinal__gt=F("covered"), ordinal__lte=ordinal)
        .order_by("-ordinal", "-part")
        .values_list(*HISTORY_COLUMNS, "covered")[:TURNS_OF_A_PAGE]
    )
)
LIST_EARLIER_TURNS = CompiledQuery(
    lambda session_id, after, ordinal, part: (
        _TURNS_OF_HISTORY.filter(
            Q(ordinal__lt=ordinal) | Q(part__lt=part), session_id=session_id, ordinal__gt=after, ordinal__lte=ordinal
        )
        .order_by("-ordinal", "-part")
        .values_list(*HISTORY_COLUMNS)[:TURNS_OF_A_PAGE]
    )
)
# Unordered: if ordered by ordinal, the planner scans all turns of the session.
LIST_PINNED_TURNS = CompiledQuery(
    lambda session_id: (
        _TURNS_OF_HISTORY.filter(Q(is_pinned=True), session_id=session_id).order_by().values_list(*HISTORY_COLUMNS)
    )
)
LIST_USER_MESSAGES = CompiledQuery(
    lambda run_id: (
        Turn.objects.filter(run_id=run_id, role__in=("user", *Turn.CONTEXT_ROLES))
        .exclude(_IS_ANSWER)
        .order_by("part")
        .values_list("pk", "content", "attached")
    )
)
# Every run, when its end is stored.
GET_SESSION = CompiledObjects(lambda session_id: Session.objects.select_related("agent").filter(pk=session_id))


def _turns_of_run(session_id: Any, ordinal: Any) -> QuerySet[Turn]:
    return Turn.objects.filter(session_id=session_id, ordinal=ordinal)


# It returns the session, the next free part of the run's turns, and whether its answer is stored. The run's row is
# locked by then, and with it its turns.
SET_LAST_ACTIVE = CompiledReturning(
    lambda session_id, ordinal, now: (
        Session.objects.filter(pk=session_id).annotate(
            next_part=Coalesce(Subquery(_turns_of_run(session_id, ordinal).order_by("-part").values("part")[:1]), -1)
            + 1,
            has_answer=Exists(_turns_of_run(session_id, ordinal).filter(is_answer=True)),
        ),
        {"last_active_at": now},
    )
)
# Every tool call that sends something to a place that the agent's rules do not name: who has written in the session?
GET_SESSION_OWNER = CompiledObjects(lambda session_id: Session.objects.select_related("owner").filter(pk=session_id))
LIST_FOREIGN_TEXTS = CompiledQuery(
    lambda session_id: (
        Turn.objects.filter(
            (Q(role="user") & ~Q(attached="")) | Q(role="tool", run=None) | Q(role="others") | Q(origins__gt=""),
            session_id=session_id,
        )
        .order_by()
        .distinct()
        .values_list("role", "origins")
    )
)
_TEXTS_SEARCHED = 200  # for what users have written
LIST_TEXTS = CompiledQuery(
    lambda session_id: (
        Turn.objects.filter(session_id=session_id, role__in=("user", "others"))
        .order_by("-ordinal", "-part")
        .values_list("content", "attached", "tool_call_ids", "is_off_path", "origins")[:_TEXTS_SEARCHED]
    )
)

# Every run of a channel's sender: is the sender of the session, alone in its chat, linked with a user? channel: a slug.
_LINK_OF_SESSION = SenderLink.objects.filter(
    IS_LINKED, sender_id=OuterRef("sender_id"), account__account_id=OuterRef("account_id"), user__is_active=True
)
FIND_LINKED_USER = CompiledQuery(
    lambda session_id, channel: (
        Session.objects.filter(pk=session_id)
        .annotate(linked=Subquery(_LINK_OF_SESSION.filter(account__channel=channel).order_by().values("user_id")[:1]))
        .values_list("channel", "account_id", "sender_id", "linked")
    )
)

# The reaper each second: messages that the search does not find yet.
FIND_LATER_TURN = CompiledQuery(lambda after: Turn.objects.filter(pk__gt=after).values_list("pk")[:1])
FIND_NEWEST_TURN = CompiledQuery(lambda: Turn.objects.order_by("-pk").values_list("pk")[:1])


def due_deliveries() -> QuerySet[Delivery]:
    """Return the first open delivery of each ordering key, if it is due and not claimed."""
    heads = Delivery.objects.filter(IS_OPEN).order_by().values("ordering_key").annotate(head=Min("id"))
    due = Delivery.objects.filter(pk__in=heads.values("head"), status="pending", owner=None)
    return due.filter(ready_at__lte=Now(), expires_at__gt=Now(), account__is_enabled=True)


# The reaper each second: addresses to notify of tasks in whose session something has happened.
_NEWS = TimelineHead.objects.filter(pk=OuterRef("session_id"), seq__gt=OuterRef("seen_seq"))
LIST_CHANGED_PUSHES = CompiledObjects(
    lambda: (
        TaskPush.objects.filter(Exists(_NEWS), is_open=True)
        .select_related("session__owner")
        .order_by("pk")[:_SWEPT_AT_ONCE]
    )
)

# Each runs worker, each second: the enabled accounts, with what tells that one or its connection has changed.
LIST_ACCOUNT_VERSIONS = CompiledQuery(
    lambda: (
        ChannelAccount.objects.filter(is_enabled=True)
        .order_by()
        .values_list("pk", "updated_at", "agent__updated_at", "connection__holder", "connection__attention_at")
    )
)

# The sender, the fetcher and the sweeper of each process, each second.
FIND_DUE_DELIVERY = CompiledQuery(lambda: due_deliveries().order_by().values_list("pk")[:1])
LIST_OWNED_DELIVERIES = CompiledObjects(
    lambda: Delivery.objects.filter(owner__isnull=False).select_related("account", "session__agent").order_by()
)
LIST_LATE_DELIVERIES = CompiledObjects(
    lambda: (
        Delivery.objects.filter(status="pending", owner=None, expires_at__lte=Now())
        .select_related("account", "session__agent")
        .order_by("expires_at")[:_SWEPT_AT_ONCE]
    )
)
FIND_OPEN_PROMPT = CompiledQuery(
    lambda: Delivery.objects.filter(approval_id__isnull=False).order_by().values_list("pk")[:1]
)
FIND_OPEN_QUESTION_PROMPT = CompiledQuery(
    lambda: Delivery.objects.filter(question_id__isnull=False).order_by().values_list("pk")[:1]
)
FIND_WAITING_FILE = CompiledQuery(
    lambda: Attachment.objects.filter(status="waiting", owner=None).order_by().values_list("pk")[:1]
)
LIST_WAITING_FILES = CompiledObjects(
    lambda: Attachment.objects.filter(status="waiting").select_related("turn").order_by("id")[:_SWEPT_AT_ONCE]
)
# A runs worker each second: the next part of the schedules that are due. Each that is started, and its time.
STARTED_AT_ONCE = 10
LIST_DUE_SCHEDULES = CompiledObjects(
    lambda after, after_id: (
        Schedule.objects.filter(
            Q(next_at__gt=after) | Q(pk__gt=after_id), is_paused=False, next_at__lte=Now(), next_at__gte=after
        )
        .select_related("agent", "owner", "session__agent")
        .order_by("next_at", "pk")[:STARTED_AT_ONCE]
    )
)


def _unchanged_schedule(schedule_id: Param, seen: Param) -> QuerySet[Schedule]:
    return Schedule.objects.filter(pk=schedule_id, next_at=seen, is_paused=False)


ADVANCE_SCHEDULE = CompiledUpdate(
    lambda schedule_id, seen, next_at: (_unchanged_schedule(schedule_id, seen), {"next_at": next_at})
)
END_SCHEDULE = CompiledUpdate(lambda schedule_id, seen: (_unchanged_schedule(schedule_id, seen), {"next_at": None}))
INSERT_TICKS = CompiledInsert(ScheduleTick)

# The sweep of each second: is any browser notified, and of something now?
FIND_PUSH_SUBSCRIPTION = CompiledQuery(lambda: PushSubscription.objects.order_by().values_list("pk")[:1])
FIND_DUE_NOTICE = CompiledQuery(lambda: PushNotice.objects.filter(due_at__lte=Now()).order_by().values_list("pk")[:1])
