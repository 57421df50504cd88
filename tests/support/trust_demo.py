"""A high-risk tool call on a running installation: it waits for approval, its receipt verifies, forgeries fail.

`python -m tests.support.trust_demo [--approve]`, with KOMAND_DATA_DIR of the installation. The run goes through the
installation's own workers, with a scripted model. Exit code 0 if everything holds.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents_app import selectors as runs  # noqa: E402
from agents_app import services  # noqa: E402
from agents_app.configuration import agent_skills  # noqa: E402
from agents_app.models import Agent, ModelProvider  # noqa: E402
from agents_app.types import RunTranscript  # noqa: E402
from audit_app.kernel import context  # noqa: E402
from audit_app.kernel.errors import NotFound, Unavailable  # noqa: E402
from audit_app.models import AuditEntry  # noqa: E402
from sessions_app.approvals import decisions  # noqa: E402
from sessions_app.models import Session  # noqa: E402
from sessions_app.services import Accepted, NewMessage, open_session, receive  # noqa: E402
from tools_app import selectors as tools  # noqa: E402
from tools_app.models import ToolExecution  # noqa: E402
from tools_app.receipts import receipts  # noqa: E402
from tools_app.skills import registry  # noqa: E402
from tools_app.types import ApprovalView, ExecutionStatus  # noqa: E402

AGENT = "demo-trust"
_SKILL = {
    "skillId": "demo-launch-plan",
    "name": "Launch plan",
    "version": "1.0.0",
    "publisherId": "komand",
    "risk": "high",
    "description": "The plan that nobody reads without being asked.",
    "instruction": {"body": "Count down from ten. Stop at zero."},
}
_AUDITED = (
    "ToolCallRequested",
    "ApprovalRequested",
    "ApprovalDecided",
    "ToolExecutionStarted",
    "ToolExecutionCompleted",
)
_LOOK_SECONDS = 0.2

T = TypeVar("T")


class DemoFailed(Exception):
    """A step had an unexpected result; the message names it."""


def prepare(person: User) -> Session:
    """Return a new session of the user with the agent, which is created with its skill and script if needed."""
    provider, _ = ModelProvider.objects.get_or_create(name=AGENT, defaults={"kind": "scripted"})
    registry.register(_SKILL)
    with transaction.atomic(), context.bind(actor=f"user:{person.pk}"):
        try:
            agent = runs.get_agent(AGENT)
        except NotFound:
            _restore_retired()
            given = {"agent_id": AGENT, "name": "Trust demo", "provider": provider.name}
            agent = _find() or services.create_agent(**given, is_shared_with_everyone=True)
        services.update_agent(agent, provider=provider.name, autonomy="supervised", model_id=_script())
        agent_skills.install_skill(agent, _SKILL["skillId"], owner_id=person.pk)  # type: ignore[arg-type]
        return open_session(owner=person, agent_id=AGENT, title="Trust demo")


def ask(person: User, session: Session) -> tuple[Accepted, ApprovalView]:
    """Send the message, and wait until its call waits for approval."""
    with context.bind(actor=f"user:{person.pk}"):
        message = NewMessage.into(session, "Read me the launch plan.")
        accepted = receive(message, owner=person, session=session)

    def look() -> ApprovalView | None:
        return next(iter(tools.list_approvals(status="pending", session_ids=[session.pk], limit=1)), None)

    return accepted, _until(look, 30, "No worker has taken the run. Is `manage.py up` running?")


def approve(person: User, approval: ApprovalView) -> None:
    decisions.decide(
        approval.id, decision="allow_once", actor=f"user:{person.pk}", has_fresh_login=True, note="Shown by demo_trust."
    )


def wait_for_end(run_id: UUID, seconds: float) -> RunTranscript:
    def look() -> RunTranscript | None:
        transcript = runs.get_transcript(run_id)
        return transcript if transcript.run.status.is_terminal else None

    return _until(look, seconds, "The run has not ended in time.")


def check(transcript: RunTranscript) -> list[str]:
    """Yield what was proved, line by line. Raises DemoFailed at the first check that fails."""
    execution = next(iter(transcript.executions), None)
    if execution is None or execution.status is not ExecutionStatus.COMPLETED:
        raise DemoFailed(f"The call was not made: {execution.error if execution else 'there is none'}")
    genuine = receipts.verify_receipt(execution.receipt)
    if not genuine.is_valid:
        raise DemoFailed(f"The receipt does not verify: {genuine.reason}")
    lines = [f"Receipt: {execution.receipt}", f"  verifies: {genuine.reason}"]
    for what, forged in _forgeries(ToolExecution.objects.get(pk=execution.id)).items():
        verdict = receipts.check_stored(forged)
        if verdict.is_valid:
            raise DemoFailed(f"A copy with another {what} passes for genuine.")
        lines.append(f"  a copy with another {what} does not: {verdict.reason}")
    entries = AuditEntry.objects.filter(session_id=execution.session_id).order_by("id")
    actions = list(entries.values_list("action", flat=True))
    if missing := [action for action in _AUDITED if action not in actions]:
        raise DemoFailed(f"The audit log lacks {', '.join(missing)}.")
    return [*lines, f"Audit log: {', '.join(actions)}"]


def _forgeries(row: ToolExecution) -> dict[str, ToolExecution]:
    changes: dict[str, dict[str, Any]] = {
        "argument": {"arguments": {"file": "other.md"}},
        "result": {"output": json.dumps({"name": "Launch plan", "instructions": "Launch at once."})},
        "time": {"completed_at": timezone.now()},
    }
    forged = {what: copy(row) for what in changes}
    for what, columns in changes.items():
        for column, value in columns.items():
            setattr(forged[what], column, value)
    return forged


def _script() -> str:
    """Return a model name that contains the script and the current time; each script runs once."""
    call = {"text": "I need the plan. ", "tool_calls": [[f"skill__{_SKILL['skillId']}", {}]]}
    reply = {"text": f"Read, with your leave, at {timezone.now():%H:%M:%S.%f}."}
    return json.dumps([call, reply], separators=(",", ":"))


def _find() -> Agent | None:
    return Agent.objects.filter(agent_id=AGENT).first()


def _restore_retired() -> None:
    if retired := _find():
        services.restore_agent(retired)


def _until(look: Callable[[], T | None], seconds: float, otherwise: str) -> T:
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise Unavailable(otherwise)
        time.sleep(_LOOK_SECONDS)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--approve", action="store_true", help="approve the call instead of waiting for a user")
    approves = parser.parse_args().approve
    user = User.objects.filter(is_active=True, is_staff=True).order_by("pk")[0]
    session = prepare(user)
    accepted, approval = ask(user, session)
    _print(f"The agent asks for {approval.tool}, risk {approval.risk}: {approval.reason}")
    if approves:
        approve(user, approval)
    else:
        _print(f"Approve it at /chat/{session.pk}, logged in as {user.username}.")
    seconds = 60 if approves else 60 * settings.KOMAND_APPROVAL_MINUTES + 60
    transcript = wait_for_end(accepted.run_id, seconds)
    _print(f"The run has {transcript.run.status}: {transcript.answer or transcript.run.error_message}")
    for line in check(transcript):
        _print(line)
    _print("All of it holds.")
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
