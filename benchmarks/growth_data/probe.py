"""Times everyday operations on a data folder: reads the name of one on each line, and prints its milliseconds.

Runs the code of the web process and the workers without sockets and brokers, so that the database makes the difference.
`python -m benchmarks.growth_data.probe`; its first line of output lists the operations.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
django.setup()

# Only after Django is set up: these modules name models.
from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents_app import selectors as agents  # noqa: E402
from agents_app.models import Run  # noqa: E402
from agents_app.runs import lease, transitions  # noqa: E402
from agents_app.runs.next_step import End  # noqa: E402
from agents_app.runs.reaper import Reaper  # noqa: E402
from agents_app.types import RunStatus  # noqa: E402
from audit_app import stream, timeline  # noqa: E402
from audit_app.kernel import nudges  # noqa: E402
from audit_app.kernel.ids import new_id  # noqa: E402
from audit_app.models import TimelineHead  # noqa: E402
from benchmarks.seed_data import seed  # noqa: E402
from sessions_app.channels.outbound import transitions as deliveries  # noqa: E402
from sessions_app.models import Schedule, ScheduleTick, Session  # noqa: E402
from sessions_app.schedules.starter import Starter  # noqa: E402
from sessions_app.services import NewMessage, receive  # noqa: E402

_SESSIONS, _TURNS = 30, 1000
_WATCHED = 100
_SCHEDULES = 10
_LISTS = {
    "agents": ("agents_app_agent", ""),
    "channel accounts": ("sessions_app_channelaccount", ""),
    "runs": ("agents_app_run", ""),
    "runs that failed": ("agents_app_run", "status__in=failed"),
    "runs, words": ("agents_app_run", "q=sphinx"),
    "sessions": ("sessions_app_session", ""),
    "sessions, words": ("sessions_app_session", "q=sphinx"),
    "executions": ("tools_app_toolexecution", ""),
    "executions of a tool": ("tools_app_toolexecution", "tool=echo"),
    "audit": ("audit_app_auditentry", ""),
    "audit of an action": ("audit_app_auditentry", "action=MessageSent"),
    "audit, words": ("audit_app_auditentry", "q=sphinx"),
    "audit of a request": ("audit_app_auditentry", "q=request-7"),
    "deliveries": ("sessions_app_delivery", ""),
    "deliveries that failed": ("sessions_app_delivery", "status__exact=failed"),
    "inbound": ("sessions_app_inboundmessage", ""),
    "timeline": ("audit_app_event", ""),
    "timeline of a type": ("audit_app_event", "q=run.completed"),
}

Act = Callable[[], object]


class Probe:
    """One operator, who also has some sessions, one of them long."""

    def __init__(self) -> None:
        settings.KOMAND_API_LIMIT = settings.KOMAND_CHAT_LIMIT = 0
        seeded = seed(_SESSIONS, _TURNS)
        self._user = User.objects.get(username="bench")
        User.objects.filter(pk=self._user.pk).update(is_staff=True, is_superuser=True)
        self._sessions = [Session.objects.get(pk=opened["id"]) for opened in seeded["sessions"]]
        self._long = Session.objects.select_related("agent").get(pk=seeded["long_session"]["id"])
        self._sent = 0
        self._owner = new_id()
        self._claimed: list[Run] = []
        self._reaper = Reaper()
        self._starter = Starter()
        headers = {"host": "127.0.0.1", "cookie": seeded["cookie"]}
        self._page = Client(headers=headers, raise_request_exception=True)
        self._api = Client(headers={"host": "127.0.0.1", "authorization": f"Bearer {seeded['api_key']}"})

    def acts(self) -> dict[str, Act]:
        """Return the operations by name, each after those whose results it needs."""
        long, newest = self._long, agents.get_run(Run.objects.latest("id").pk)
        heads = list(TimelineHead.objects.values_list("pk", flat=True)[:_WATCHED])
        admin = {f"admin: {name}": self._list(*list_) for name, list_ in _LISTS.items()}
        return {
            "a message is taken in": self._send,
            "a worker claims its run": self._claim,
            "the run ends": self._end,
            "one pass of the reapers": self._reaper.sweep,
            "a worker looks for a run, none waits": lambda: lease.claim(self._owner),
            "a sender looks for deliveries": lambda: deliveries.list_due(50),
            f"heads of {_WATCHED} watched sessions": lambda: timeline.list_heads(heads),
            "where a viewer resumes": lambda: timeline.find_last(heads[0], "run.started", until=10**6),
            "ten due schedules start": self._start_schedules,
            "a new chat's page": self._get("/chat/new"),
            "agents found by a word": self._fragment("/chat/agents?q=made"),
            "a session's page": self._get(f"/chat/{long.pk}"),
            "older turns": self._get(f"/chat/{long.pk}/turns?before=250"),
            "the sidebar": self._fragment("/chat/sessions"),
            "the sidebar, words": self._fragment("/chat/sessions?q=sphinx"),
            "REST: agents": self._rest("/api/agents?pageSize=50"),
            "REST: sessions": self._rest("/api/sessions?pageSize=50"),
            "REST: history": self._rest(f"/api/sessions/{long.pk}/history?pageSize=50"),
            "REST: a run": self._rest(f"/api/runs/{self._last_run(long)}"),
            **admin,
            "admin: a run": self._get(reverse("admin:agents_app_run_change", args=[newest.id])),
            "admin: a session": self._get(reverse("admin:sessions_app_session_change", args=[long.pk])),
        }

    @staticmethod
    def _last_run(session: Session) -> UUID:
        return Run.objects.filter(conversation_id=session.pk).order_by("-ordinal")[0].pk

    def _send(self) -> None:
        session = self._sessions[self._sent % _SESSIONS]
        self._sent += 1
        receive(NewMessage("WebChat", "default", str(self._user.pk), "", "hello"), owner=self._user, session=session)

    def _claim(self) -> None:
        claim = lease.claim(self._owner)
        assert claim is not None
        self._claimed.append(claim.run)

    def _end(self) -> None:
        run = self._claimed.pop()
        with transaction.atomic():
            assert transitions.end(run, End(RunStatus.COMPLETED, answer="Hello."), held_by=self._owner)

    def _start_schedules(self) -> None:
        """Create schedules that are due, start them, and end their runs, which would wait for a worker."""
        now = timezone.now()
        given = {"agent": self._long.agent, "owner": self._user, "cron": "0 0 1 1 *", "prompt": "Report."}
        stamps = {"created_by": f"user:{self._user.pk}", "created_at": now, "updated_at": now, "next_at": now}
        rows = [Schedule(task_id=str(new_id()), **given, **stamps) for _ in range(_SCHEDULES)]
        Schedule.objects.bulk_create(rows)
        self._starter.start_part()
        started = ScheduleTick.objects.filter(schedule__in=rows, status="sent").values_list("run_id", flat=True)
        assert len(started) == _SCHEDULES
        Run.objects.filter(pk__in=list(started)).update(status="completed", ended_at=now, end_stored=True)

    def _get(self, path: str) -> Act:
        return lambda: _fine(self._page.get(path))

    def _fragment(self, path: str) -> Act:
        return lambda: _fine(self._page.get(path, headers={"hx-request": "true"}))

    def _rest(self, path: str) -> Act:
        return lambda: _fine(self._api.get(path))

    def _list(self, model: str, query: str) -> Act:
        return self._get(f"{reverse(f'admin:{model}_changelist')}?{query}")


def _fine(answer: Any) -> None:
    b"".join(answer)
    if answer.status_code != 200:
        raise SystemExit(f"{answer.request['PATH_INFO']} answers {answer.status_code}")


def _timed(act: Act) -> float:
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    with mock.patch.object(nudges, "send"), mock.patch.object(stream, "send_hint"):
        acts = Probe().acts()
        _print(list(acts))
        for line in sys.stdin:
            _print(_timed(acts[line.strip()]))
            connection.close_if_unusable_or_obsolete()


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
