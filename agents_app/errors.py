"""Errors of runs."""

from audit_app.kernel.errors import AppError, Conflict, RateLimited


class RunBusy(Conflict):
    """The session is busy with another message. Wait for its answer or stop it."""

    code = "run_busy"


class QueueFull(RateLimited):
    """Too many messages wait in this session. Send again when some are answered."""

    code = "queue_full"


class IdempotencyMismatch(Conflict):
    """This idempotency key was used for another message. Use a new key for a new message."""

    code = "idempotency_mismatch"


class BudgetUsedUp(AppError):
    """A budget or a cap of costs is used up."""

    code = "budget_exhausted"


class ModelFailed(AppError):
    """The server of a model has failed."""

    code = "model_error"


class Fenced(Exception):
    """The run was claimed by another process or has ended: this claim's writes are void."""
