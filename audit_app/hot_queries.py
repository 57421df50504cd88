"""The statements of audit_app that are compiled once, each with who waits for it."""

from functools import cache, reduce
from operator import or_

from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet

from audit_app.kernel.compiled_queries import CompiledInsert, CompiledObjects, CompiledQuery, Param
from audit_app.models import AuditEntry, Event, TimelineHead

EVENT_COLUMNS = ("session_id", "seq", "ts", "type", "run_id", "parent_run_id", "workstream", "step", "actor", "payload")

# Every transaction that emits events.
INSERT_EVENTS = CompiledInsert(Event)
INSERT_AUDIT_ENTRIES = CompiledInsert(AuditEntry)

# Every viewer of a session, and every question whether a user has a right.
USER_PERMISSIONS = CompiledQuery(
    lambda user_id: (
        Permission.objects.filter(user=user_id).order_by().values_list("content_type__app_label", "codename")
    )
)
GROUP_PERMISSIONS = CompiledQuery(
    lambda user_id: (
        Permission.objects.filter(group__user=user_id).order_by().values_list("content_type__app_label", "codename")
    )
)

# Every viewer that comes: the events of its session, in pages.
EVENTS_OF_A_PAGE = 500
LIST_EVENTS = CompiledQuery(
    lambda session_id, after: (
        Event.objects.filter(session_id=session_id, seq__gt=after)
        .order_by("seq")
        .values_list(*EVENT_COLUMNS)[:EVENTS_OF_A_PAGE]
    )
)

# Every request that follows its run, and every viewer that resumes.
FIND_LAST = CompiledQuery(
    lambda session_id, event_type, until: (
        Event.objects.filter(session_id=session_id, type=event_type, parent_run_id=None, seq__lte=until)
        .order_by("-seq")
        .values_list(*EVENT_COLUMNS)[:1]
    )
)
FIND_HEAD = CompiledQuery(lambda session_id: TimelineHead.objects.filter(pk=session_id).values_list("seq"))

# The sealer of each worker, each second. At most this many entries have one seal.
SEALED_AT_ONCE = 200
UNSEALED_ENTRIES = CompiledObjects(lambda: AuditEntry.objects.filter(number=None).order_by("id")[:SEALED_AT_ONCE])


@cache
def events_after(count: int) -> CompiledQuery:
    """Return the query of the events of `count` sessions; all viewers of a process wait for it.

    Its values are `session_0`, `seq_0`, `session_1`, …: each session with the place after which it is read.
    """

    def build() -> QuerySet[Event, tuple[object, ...]]:
        newer = (Q(session_id=Param(f"session_{n}"), seq__gt=Param(f"seq_{n}")) for n in range(count))
        return Event.objects.filter(reduce(or_, newer)).order_by("session_id", "seq").values_list(*EVENT_COLUMNS)

    return CompiledQuery(build)
