"""Ids that only this protocol has: of users, the tenant, workflows and the parts of a message. Pure.

They are derived from our own ids, so that nothing is stored.
"""

from uuid import UUID, uuid5

# An installation is one tenant. A version 8 UUID (RFC 9562, section 5.8) is free to define: users have their id in it.
TENANT = UUID("6b6f6d61-6e64-8000-8000-000000000000")
_WORKFLOW = "agent-"
_MOST_USERS = 1 << 48


def user_uuid(user_id: int) -> UUID:
    return UUID(int=TENANT.int + user_id)


def user_id_of(user: UUID) -> int | None:
    """Return our id of the user; None if the UUID is not a user's."""
    number = user.int - TENANT.int
    return number if 0 < number < _MOST_USERS else None


def workflow_id(thread_id: UUID) -> str:
    """Return the workflow id of a thread, which all its runs share."""
    return f"{_WORKFLOW}{thread_id}"


def thread_id_of(workflow: str) -> str:
    """Return the thread id of a workflow id, unchecked; empty if it is not one of ours."""
    return workflow.removeprefix(_WORKFLOW) if workflow.startswith(_WORKFLOW) else ""


def part_id(run_id: UUID, step: int, kind: str) -> str:
    """Return the id of a part of a run's message. kind: text | reasoning | question:<execution id>."""
    return str(uuid5(run_id, f"{step}:{kind}"))


def threads_path(user_id: int) -> str:
    """Return the path of a user's threads in the protocol's tree."""
    return f"/users/{user_uuid(user_id)}/threads"
