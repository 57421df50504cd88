"""Times a message in a session of 5,000 turns and in one of 50. Prints JSON: CPU milliseconds of one thread.

A separate program, because it needs Django: `python -m benchmarks.long_session_cost MESSAGES`. What it stores
for a message is rolled back; its sessions stay, so use an installation of a benchmark. The long session has a summary
of all but its newest 50 turns, as compaction leaves it.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from django.contrib.auth.models import User  # noqa: E402
from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents_app import services as runs  # noqa: E402
from agents_app.models import Run  # noqa: E402
from agents_app.runs import lease  # noqa: E402
from agents_app.runs.model_call import build_request  # noqa: E402
from agents_app.types import Message  # noqa: E402
from sessions_app.models import Checkpoint, Session, Turn  # noqa: E402
from sessions_app.services import NewMessage, open_session, receive  # noqa: E402
from sessions_app.surfaces.chat import queries  # noqa: E402

_LONG, _SHORT = 5000, 50
_TEXT = "A message of a usual length, with some words about what was asked and what was found. "
_NOBODY = UUID(int=0)


def _session(owner: User, turns: int) -> Session:
    """Create a session of that many turns, two for each ordinal."""
    session, now = open_session(owner=owner), timezone.now()
    rows = (
        Turn(
            session=session,
            ordinal=number // 2,
            part=number % 2,
            role="assistant" if number % 2 else "user",
            content=f"{number}. {_TEXT}",
            created_at=now,
        )
        for number in range(turns)
    )
    Turn.objects.bulk_create(rows, batch_size=500)
    Session.objects.filter(pk=session.pk).update(next_ordinal=turns // 2, message_count=turns // 2)
    if turns > _SHORT:
        Checkpoint.objects.create(
            session=session,
            ordinal=(turns - _SHORT) // 2 - 1,
            index=0,
            reason="threshold",
            summary=_TEXT * 20,
            covered_turns=turns - _SHORT,
            tokens_before=90_000,
            tokens_after=2_000,
            prompt_version="1",
            created_at=now,
        )
    session.refresh_from_db()
    return session


def _message(session: Session) -> None:
    """Receive a message, load its run, build the request and store the end; then roll all of it back."""
    with transaction.atomic():
        accepted = receive(NewMessage.into(session, "And now?"), owner=session.owner, session=session)
        run = Run.objects.select_related("agent__provider").get(pk=accepted.run_id)
        claim = lease.load(run, _NOBODY)
        asked = replace(claim.snapshot, user_turns=(Message("user", "And now?"),))
        build_request(claim, asked, may_call_tools=True)
        runs.cancel_run(run.id)
        transaction.set_rollback(True)


def _milliseconds(act: Callable[[Session], object], session: Session) -> float:
    begun = time.thread_time()
    act(session)
    return (time.thread_time() - begun) * 1000


def measure(messages: int) -> dict[str, float]:
    """Return the medians; the sessions take turns."""
    owner = User.objects.create_user(f"bench-{timezone.now():%H%M%S%f}", "", None)
    sessions = {"long": _session(owner, _LONG), "short": _session(owner, _SHORT)}
    acts: dict[str, Callable[[Session], object]] = {"message": _message, "page": queries.read_newest}
    times: dict[str, list[float]] = {f"{name}_{size}": [] for name in acts for size in sessions}
    for place in range(messages + 3):
        for name, act in acts.items():
            for size, session in sessions.items():
                spent = _milliseconds(act, session)
                if place >= 3:  # the first ones compile statements and store renderings
                    times[f"{name}_{size}"].append(spent)
    return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
