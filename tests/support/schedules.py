"""Schedules for tests."""

from typing import Any

from django.contrib.auth.models import User

from sessions_app.models import Schedule, Session
from sessions_app.schedules import plans
from sessions_app.schedules.plans import Plan
from tests.support.rest import make_agent

# A schedule that a test makes due by the clock has no other time within the seconds until it looks.
RARELY = "0 0 1 1 *"


def make_schedule(
    owner: User | None, task_id: str = "report", *, session: Session | None = None, **plan: Any
) -> Schedule:
    """Return a schedule of the default agent; by default each hour. plan: fields of `Plan`."""
    given = {"prompt": "Report.", "cron": "0 * * * *", **plan}
    if given.get("at"):
        given["cron"] = ""
    actor = f"user:{owner.pk}" if owner else "sender:Fake:7"
    return plans.create(task_id, Plan(**given), agent=make_agent(), owner=owner, session=session, actor=actor)
