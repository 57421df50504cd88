"""Answering a conversation that a client sent, and that ends with outputs of its tools instead of a message."""

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Run
from agents_app.types import RunOptions
from audit_app import services as audit
from sessions_app.conversation import run_options
from sessions_app.conversation.new_message import Accepted
from sessions_app.conversation.sessions import lock_seen
from sessions_app.models import Session, Turn


def answer_history(session: Session, *, owner: User, actor: str, options: RunOptions) -> Accepted:
    """Start the run that answers the imported turns of a new session. Idempotent; owns its transaction.

    Raises Stopped if the agent is stopped.
    """
    with transaction.atomic():
        session = lock_seen(session)
        last = Turn.objects.filter(session=session).order_by("-ordinal", "-part").values_list("pk", flat=True)[0]
        if run := Run.objects.filter(conversation_id=session.pk).order_by("ordinal").first():
            return Accepted(session.pk, session.key, last, run.pk, run.ordinal, is_duplicate=True)
        new = runs.NewRun(
            conversation_id=session.pk,
            session_key=session.key,
            ordinal=session.next_ordinal,
            agent=session.agent,
            actor=actor,
            user_turn_count=0,
            options=run_options.granted(options, owner, session),
            session_policy=run_options.restrictions(session, None, ()),
        )
        run, queued = runs.start_run(new)
        Session.objects.filter(pk=session.pk).update(next_ordinal=run.ordinal + 1, last_active_at=timezone.now())
        audit.emit(queued)
        return Accepted(session.pk, session.key, last, run.pk, run.ordinal)
