"""Fills a prepared installation: a user with a key and a login, a webhook, empty sessions and a long one. Prints JSON.

A separate program, run on the data folder before the gateway starts.
"""

import argparse
import json
import sys
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import django

django.setup()

# Only after Django is set up: these modules name models.
from django.conf import settings  # noqa: E402
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents_app.models import Run  # noqa: E402
from agents_app.types import RunStatus  # noqa: E402
from sessions_app.channels import accounts  # noqa: E402
from sessions_app.identity.api_keys import create_api_key  # noqa: E402
from sessions_app.models import Session, Turn  # noqa: E402
from sessions_app.platforms.adapters.webhook import Webhook  # noqa: E402
from sessions_app.services import open_session  # noqa: E402

_ANSWER = """Here is what I found for question {number}.

* The **first** point needs `code` and a [link](https://example.com/{number}).
* The second is plain, but long enough to wrap on a narrow screen, as most answers are.

```python
def answer(value: int) -> int:
    return value * {number}
```

That is all. Ask again when something is missing."""


def seed(sessions: int, turns: int, callback_url: str = "") -> dict[str, Any]:
    """Create the data. Return what viewers need: sessions in order of creation; `long_session` has that many turns."""
    user = User.objects.create_user("bench", "bench@localhost", None)
    with transaction.atomic():
        opened = [open_session(owner=user, title=f"Benchmark {number}") for number in range(sessions)]
    long_session = open_session(owner=user, title="A long one")
    with transaction.atomic():
        fill(long_session, turns)
    return {
        "api_key": create_api_key(user, "benchmark", scopes=["all"]).key,
        "cookie": f"{settings.SESSION_COOKIE_NAME}={_log_in(user)}",
        "sender_id": str(user.pk),
        "sessions": [{"id": str(session.pk), "key": session.key} for session in opened],
        "webhook": _add_webhook(callback_url) if callback_url else None,
        "long_session": {"id": str(long_session.pk), "key": long_session.key},
    }


def _add_webhook(callback_url: str) -> dict[str, str]:
    """Create the webhook account. Return its path and its signing secret."""
    secret = Webhook.make_secrets()["secret"]
    accounts.add_account(
        "webhook",
        "bench",
        config={"callback_url": callback_url},
        secrets={"secret": secret},
        access="open",
        tools=[],
        messages_per_day=1_000_000,
    )
    return {"path": "/channels/webhook/bench/webhook", "secret": secret}


def _log_in(user: User) -> str:
    """Log in to the page. Return the value of the session cookie."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


def fill(session: Session, turns: int) -> None:
    """Store completed runs, a minute apart, each with a user turn and an assistant turn."""
    count, now = turns // 2, timezone.now()
    times = [now - timedelta(minutes=count - number) for number in range(count)]
    runs = Run.objects.bulk_create(_run(session, number, at) for number, at in enumerate(times))
    Turn.objects.bulk_create(turn for run in runs for turn in _turns(session, run))
    Session.objects.filter(pk=session.pk).update(message_count=turns, next_ordinal=count, last_active_at=now)


def _run(session: Session, ordinal: int, at: datetime) -> Run:
    return Run(
        conversation_id=session.pk,
        session_key=session.key,
        ordinal=ordinal,
        agent=session.agent,
        fence=1,
        status=RunStatus.COMPLETED.value,
        answer=_ANSWER.format(number=ordinal),
        actor=f"user:{session.owner_id}",
        end_stored=True,
        created_at=at,
        started_at=at,
        ended_at=at,
    )


def _turns(session: Session, run: Run) -> list[Turn]:
    question = f"Question {run.ordinal}: what is known about this?"
    place: dict[str, Any] = {"session": session, "run": run, "ordinal": run.ordinal, "created_at": run.created_at}
    return [
        Turn(part=0, role="user", content=question, **place),
        Turn(part=1, role="assistant", content=run.answer, is_answer=True, **place),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.seed_data", description=__doc__)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--callback", required=True)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(seed(options.sessions, options.turns, options.callback)))


if __name__ == "__main__":
    main()
