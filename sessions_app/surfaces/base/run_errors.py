"""HTTP status of a run that did not complete. Pure."""

from agents_app.types import RunStatus, RunView


def http_status_of(run: RunView) -> int:
    """Return the status for a run's error.

    409: it was stopped.
    402: a budget or a cap is used up; clients repeat a 429, which cannot help before the cap resets.
    502: a fault of the model or its provider.
    500: any other.
    """
    if run.status is RunStatus.CANCELLED:
        return 409
    if run.error_code == "budget_exhausted":
        return 402
    return 502 if run.error_code.startswith("model_") or run.error_code == "invalid_output" else 500
