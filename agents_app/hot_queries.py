"""The statements of agents_app that are compiled once, each with the operation that waits for it.

Those that change a run's status, owner or fence are in `runs.transitions`.
"""

from datetime import timedelta
from functools import cache
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Now

from agents_app.models import (
    CAN_ADOPT,
    IS_OPEN,
    IS_ROOT,
    IS_UNCOLLECTED,
    Agent,
    ModelPrice,
    Run,
    RunMessage,
    Step,
    UserCostCap,
    children_of,
)
from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.compiled_queries import (
    CompiledInsert,
    CompiledObjects,
    CompiledQuery,
    CompiledReturning,
    CompiledUpdate,
    Param,
)
from tools_app import selectors as tools
from tools_app.policy import emergency_stop
from tools_app.storage import memories

_OPEN_ROOTS = Q(IS_OPEN, IS_ROOT)
MARKED_AT_ONCE = 20

# Every message: it inserts a run (ready by the database's clock, as the claiming process sees it) and looks at those
# that are open.
INSERT_RUN = CompiledInsert(Run, ready_at=Now())
LIST_OPEN_RUNS = CompiledObjects(
    lambda conversation_id: (
        Run.objects.select_related("agent").filter(_OPEN_ROOTS, conversation_id=conversation_id).order_by("ordinal")
    )
)
LIST_OPEN_RUN_IDS = CompiledQuery(
    lambda conversation_id: (
        Run.objects.filter(IS_OPEN, Q(IS_ROOT) | Q(waiting_on=WaitingOn.INPUT.value), conversation_id=conversation_id)
        .order_by()
        .values_list("pk", "waiting_on", "parent_id")
    )
)

# Every viewer of the chat page that begins or resumes.
LIST_OPEN_CHILD_IDS = CompiledQuery(
    lambda conversation_id: (
        Run.objects.filter(IS_OPEN, parent__isnull=False, conversation_id=conversation_id).order_by().values_list("pk")
    )
)


# Every refresh of the page's list of sessions.
@cache
def busy_among(count: int) -> CompiledQuery:
    """Return the query of those of `count` conversations, `conversation_0` and so on, that have an open run."""
    conversations: list[Any] = [Param(f"conversation_{n}") for n in range(count)]
    open_roots = Run.objects.filter(_OPEN_ROOTS, conversation_id__in=conversations)
    return CompiledQuery(lambda: open_roots.order_by().values_list("conversation_id"))


# Every request that waits for its run.
GET_RUN = CompiledObjects(lambda run_id: Run.objects.select_related("agent").filter(pk=run_id))
LIST_STEPS = CompiledObjects(lambda run_id: Step.objects.filter(run_id=run_id, kind=Step.MODEL).order_by("index"))
FIND_STEP_TEXT = CompiledQuery(
    lambda run_id, step: (
        Step.objects.filter(run_id=run_id, kind=Step.MODEL, index=step).order_by().values_list("text", "finish_reason")
    )
)
# Every request that names an agent.
GET_AGENT = CompiledObjects(
    lambda agent_id: Agent.objects.select_related("provider").filter(agent_id=agent_id, retired_at=None)
)
# Every recorded step.
INSERT_STEP = CompiledInsert(Step)
GET_REQUESTS = CompiledQuery(
    lambda run_id: Run.objects.filter(pk=run_id).values_list("user_turn_count", "cancel_requested_at")
)
# Every claim and step of a run with a parent or children.
LIST_RUN_MESSAGES = CompiledQuery(
    lambda run_id: (
        RunMessage.objects.filter(run_id=run_id)
        .order_by("position")
        .values_list("position", "kind", "text", "about_id", "about__workstream")
    )
)
# Every claim of a child run.
GET_LAUNCHER = CompiledQuery(
    lambda run_id: Run.objects.filter(pk=run_id).values_list("options", "agent_id", "parent_id")
)
# Every launch and every step of a network.
_LOCKED = Run.objects.select_for_update(no_key=True)
LOCK_ROW = CompiledQuery(lambda run_id: _LOCKED.filter(pk=run_id).values_list("pk"))
LOCK_ROOT = CompiledQuery(
    lambda run_id: _LOCKED.filter(pk=Subquery(Run.objects.filter(pk=run_id).values("root_id"))).values_list("pk")
)
LOCK_RUN = CompiledObjects(
    lambda run_id: Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent").filter(pk=run_id)
)


def _number(runs: QuerySet[Run]) -> Subquery:  # all of one conversation; null for none
    return Subquery(runs.order_by().values("conversation_id").annotate(number=Count("*")).values_list("number"))


_OPEN_CHILDREN = Run.objects.filter(children_of(OuterRef("pk")), IS_OPEN)
_LAST_CHILD = Run.objects.filter(conversation_id=OuterRef("conversation_id")).order_by("-ordinal")
# Every launch, once the parent is locked: a `children.Checked`.
CHECK_LAUNCH = CompiledQuery(
    lambda run_id, child_id, workstream, least: Run.objects.filter(pk=run_id).values_list(
        Exists(Run.objects.filter(pk=child_id)),
        _number(_OPEN_CHILDREN),
        Exists(_OPEN_CHILDREN.filter(workstream=workstream)),
        _number(Run.objects.filter(root_id=Coalesce(OuterRef("root_id"), OuterRef("pk")))),
        Subquery(_LAST_CHILD.filter(ordinal__gte=least).values("ordinal")[:1]),
    )
)
COUNT_CHILD = CompiledUpdate(lambda run_id: (Run.objects.filter(pk=run_id), {"child_count": F("child_count") + 1}))
# Messages to a run, the results of child runs among them. It returns the number of the run's user turns.
COUNT_MESSAGES = CompiledReturning(
    lambda run_id, number: (
        Run.objects.filter(IS_OPEN, pk=run_id).values_list("user_turn_count"),
        {"user_turn_count": F("user_turn_count") + number},
    )
)
INSERT_RUN_MESSAGE = CompiledInsert(RunMessage)


def _later_messages() -> QuerySet[Run]:
    """Return the queued runs behind a root run that answer something."""
    later = Run.objects.filter(_OPEN_ROOTS, options__compacts_only__isnull=True, ordinal__gt=OuterRef("ordinal"))
    return later.filter(conversation_id=OuterRef("conversation_id")).order_by()


# Every end of a child run.
_HAS_LISTENER = Q(is_on_its_own=True) | Q(listener__isnull=True, parent__ended_at=None)
_HAS_LISTENER |= Q(listener__isnull=False, listener__ended_at=None)
FIND_LISTENER = CompiledQuery(
    lambda run_id: (
        Run.objects.filter(_HAS_LISTENER, pk=run_id).order_by().values_list("is_on_its_own", "listener_id", "parent_id")
    )
)
GET_TREE_REQUESTS = CompiledQuery(
    lambda run_id: Run.objects.filter(pk=run_id).values_list(
        "user_turn_count", "cancel_requested_at", "is_paused", "terminated_at", Exists(_later_messages())
    )
)
# Every model call of a child run with a budget above it, before and after the call.
LIST_TREE_USAGE = CompiledQuery(
    lambda root_id: (
        Run.objects.filter(root_id=root_id)
        .order_by("created_at", "id")
        .values_list(
            "pk",
            "parent_id",
            "workstream",
            "budget_tokens",
            F("input_tokens") + F("output_tokens"),
            "reserved_tokens",
            "owner",
            "waiting_on",
        )
    )
)
# The next message in the queue of a conversation whose run has ended.
FIND_FIRST_OPEN_RUN = CompiledQuery(
    lambda conversation_id: (
        Run.objects.filter(_OPEN_ROOTS, conversation_id=conversation_id)
        .order_by("ordinal")
        .values_list("pk", "owner")[:1]
    )
)


def on_their_own(conversation_id: Any, actor: Any) -> QuerySet[Run]:
    """Return the child runs of a person that are on their own: no run of the conversation gets their results."""
    return Run.objects.filter(is_on_its_own=True, conversation_id=conversation_id, actor=actor)


def claimable() -> QuerySet[Run]:
    """Return the runs that can be claimed.

    They have no owner, are the first open root run of their conversation or child runs, are not stopped by an operator,
    and are due, waited for tool executions that have all ended, or wait for child runs of which one has a result, or
    while another run of the conversation waits for them.
    """
    due = Q(ready_at__lte=Now())
    on_tools = Q(waiting_on=WaitingOn.TOOLS.value) | Q(waiting_on=WaitingOn.APPROVAL.value)
    on_tools |= Q(waiting_on=WaitingOn.INPUT.value)  # approvals and questions belong to executions
    tools_done = on_tools & ~Exists(tools.open_executions().filter(run_id=OuterRef("pk")))
    uncollected = Run.objects.filter(children_of(OuterRef("pk")), IS_UNCOLLECTED).order_by()
    child_done = Q(waiting_on=WaitingOn.CHILDREN.value) & Exists(uncollected)
    is_awaited = Q(CAN_ADOPT, waiting_on=WaitingOn.CHILDREN.value) & Exists(_later_messages())
    earlier = Run.objects.filter(
        _OPEN_ROOTS, conversation_id=OuterRef("conversation_id"), ordinal__lt=OuterRef("ordinal")
    )
    is_first = Q(parent__isnull=False) | ~Exists(earlier)
    stopped = emergency_stop.stops_of(OuterRef("agent__agent_id"))
    can_go_on = due | tools_done | child_done | is_awaited
    return Run.objects.filter(IS_OPEN, can_go_on, is_first, ~Exists(stopped), owner=None)


_RUNNING = Run.objects.filter(owner__isnull=False).order_by().values("actor").annotate(number=Count("*"))
# With each run that a worker may claim: the number of its user's running runs, null for none; and flags, of which a
# false one spares a statement: has its agent stored memories, of anyone, its provider prices of models, its person
# child runs on their own, and so on.
_RUNNING_OF_USER = Subquery(_RUNNING.filter(actor=OuterRef("actor")).values("number"))
CLAIM_FLAGS: dict[str, Exists] = {
    "has_memories": Exists(memories.of_agent(OuterRef("agent__agent_id"))),
    "has_prices": Exists(ModelPrice.objects.filter(provider_id=OuterRef("agent__provider_id"))),
    "may_adopt": Exists(on_their_own(OuterRef("conversation_id"), OuterRef("actor")).order_by()),
    **tools.source_flags(OuterRef("agent__agent_id")),
}


def _candidates(runs: QuerySet[Run]) -> QuerySet[Run]:
    rows = runs.select_related("agent__provider", "recall")
    return rows.annotate(running_of_user=_RUNNING_OF_USER, **CLAIM_FLAGS)


def _claimable_within(most: Param) -> QuerySet[Run]:
    """Return the claimable runs of users who have fewer than `most` running runs."""
    return claimable().exclude(actor__in=_RUNNING.filter(number__gte=most).values("actor")).order_by()


# Every run, when a worker claims it.
FIND_CLAIMABLE = CompiledObjects(lambda run_id: _candidates(claimable().filter(pk=run_id)).order_by())
# A place that has become free: of a worker, or of a user. Started runs go first, by a query of their own: databases
# differ in where they sort null.
FIND_STARTED = CompiledObjects(lambda most: _candidates(_claimable_within(most).filter(ready_at=None))[:1])
FIND_NEXT_USERS = CompiledObjects(
    lambda after: _candidates(claimable().filter(actor__gt=after, ready_at__lte=Now())).order_by("actor", "ready_at")[
        :1
    ]
)
FIND_STARTED_OF_USER = CompiledObjects(
    lambda actor: _candidates(claimable().filter(actor=actor, ready_at=None)).order_by()[:1]
)
FIND_OLDEST_OF_USER = CompiledObjects(
    lambda actor: _candidates(claimable().filter(actor=actor, ready_at__lte=Now())).order_by("ready_at")[:1]
)
# Every half second while a user has more runs than may run: those of which this is not shown yet.
LIST_UNMARKED = CompiledQuery(
    lambda actor: (
        claimable()
        .filter(actor=actor, status=RunStatus.QUEUED.value, waiting_on="", ready_at__lte=Now())
        .order_by("ready_at")
        .values_list("pk", _RUNNING_OF_USER)[:MARKED_AT_ONCE]
    )
)
GET_CLAIMED_RUN = CompiledObjects(
    lambda run_id: Run.objects.select_related("agent__provider", "recall").filter(pk=run_id)
)
# Every half second while a process has runs: its runs, and whether each is cancelled, or stopped by an operator.
LIST_OWN_RUNS = CompiledQuery(
    lambda owner: (
        Run.objects.filter(owner=owner)
        .order_by()
        .values_list("pk", "fence", "cancel_requested_at", Exists(emergency_stop.stops_of(OuterRef("agent__agent_id"))))
    )
)
LIST_MODEL_PRICES = CompiledObjects(lambda provider_id: ModelPrice.objects.filter(provider_id=provider_id).order_by())
# Every model call of a user, before and after it.
GET_USER_CAPS = CompiledQuery(
    lambda user_id: UserCostCap.objects.filter(pk=user_id).values_list("per_day", "per_month")
)
# The reaper each second: runs that are held, claimable without a nudge, or ended without a stored end.
# Held ones are unordered: ordered by id, the planner would scan all runs.
LOST_NUDGE_SECONDS = 2
REAPED_AT_ONCE = 100
LIST_HELD_RUNS = CompiledObjects(
    lambda: Run.objects.select_related("agent").filter(IS_OPEN, owner__isnull=False).order_by()
)
# A run that may be in the lists of claimable ones, which cost ten times as much to ask for.
FIND_PERHAPS_CLAIMABLE = CompiledQuery(
    lambda: (
        Run.objects.filter(Q(ready_at=None) | Q(ready_at__lte=_nudge_is_lost()), IS_OPEN, owner=None)
        .order_by()
        .values_list("pk")[:1]
    )
)
LIST_STARTED_CLAIMABLE = CompiledQuery(
    lambda most: _claimable_within(most).filter(ready_at=None).values_list("pk")[:REAPED_AT_ONCE]
)
LIST_LATE_CLAIMABLE = CompiledQuery(
    lambda most: (
        _claimable_within(most)
        .filter(ready_at__lte=_nudge_is_lost())
        .order_by("ready_at")
        .values_list("pk")[:REAPED_AT_ONCE]
    )
)
FIND_MISSED_END = CompiledQuery(lambda: missed_ends().order_by().values_list("pk")[:1])


def missed_ends() -> QuerySet[Run]:
    """Return the ended root runs whose conversation has not stored the end."""
    return Run.objects.filter(IS_ROOT, end_stored=False, ended_at__lt=_nudge_is_lost())


def _nudge_is_lost() -> CombinedExpression:
    return Now() - timedelta(seconds=LOST_NUDGE_SECONDS)


# The reaper each second: child runs of whose deadline another part has passed.
LIST_ALARMS = CompiledQuery(
    lambda: (
        Run.objects.filter(IS_OPEN, alarm_at__isnull=False, alarm_at__lte=Now())
        .order_by()
        .values_list("pk", Coalesce("listener_id", "parent_id"))[:REAPED_AT_ONCE]
    )
)
# A sweep each second: child runs on their own with something that has to start a run, which no other will get.
LIST_REPORTING = CompiledQuery(
    lambda: (
        reporting()
        .exclude(Q(error_code="cancelled") | Q(error_code="stopped"))
        .exclude(Exists(adopters(OuterRef("conversation_id"), OuterRef("actor"))))
        .order_by()
        .values_list("pk")[:REAPED_AT_ONCE]
    )
)


def reporting() -> QuerySet[Run]:
    """Return the child runs on their own that have a result, or progress, for which a run has to be started."""
    works_on = IS_OPEN & ~Q(waiting_on=WaitingOn.PARENT.value) & Q(cancel_requested_at=None)
    has_progress = works_on & Q(progress_at__lte=Now())
    return Run.objects.filter(IS_UNCOLLECTED | has_progress, is_on_its_own=True, starts_run=True, is_paused=False)


def adopters(conversation_id: Any, actor: Any) -> QuerySet[Run]:
    """Return the open runs of a person that adopt child runs on their own."""
    return Run.objects.filter(CAN_ADOPT, IS_OPEN, conversation_id=conversation_id, actor=actor).order_by()
