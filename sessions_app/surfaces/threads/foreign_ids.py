"""Ids that this protocol has and we do not: its users, tenant and workflows, the parts of a message. Pure.

They are made of our own ids, so that nothing needs to be stored and each can be read back.
"""

from uuid import UUID, uuid5

# One installation is one tenant. The node of a version 8 UUID is free to use: users have their own number there.
TENANT = UUID("6b6f6d61-6e64-8000-8000-000000000000")
_WORKFLOW = "agent-"
_MOST_USERS = 1 << 48


def user_uuid(user_id: int) -> UUID:
    return UUID(int=TENANT.int + user_id)


def user_id_of(user: UUID) -> int | None:
    """The number of the user with that id; None for an id that is nobody's."""
    number = user.int - TENANT.int
    return number if 0 < number < _MOST_USERS else None


def workflow_id(thread_id: UUID) -> str:
    """The same for every run of a thread."""
    return f"{_WORKFLOW}{thread_id}"


def thread_id_of(workflow: str) -> str:
    """What should be a thread's id; empty for what is no workflow of ours."""
    return workflow.removeprefix(_WORKFLOW) if workflow.startswith(_WORKFLOW) else ""


def part_id(run_id: UUID, step: int, kind: str) -> str:
    """A part of a run's message that has no row of its own. kind: text | reasoning, or what tells it apart."""
    return str(uuid5(run_id, f"{step}:{kind}"))


def threads_path(user_id: int) -> str:
    """Where a user's threads lie in the protocol's tree of paths."""
    return f"/users/{user_uuid(user_id)}/threads"
