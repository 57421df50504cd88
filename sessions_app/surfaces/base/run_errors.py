"""HTTP status of a run that did not complete. Pure."""

from agents_app.types import RunStatus, RunView


def http_status_of(run: RunView) -> int:
    """Return 409 for a run that was stopped, 502 for a fault of the model or its provider, else 500."""
    if run.status is RunStatus.CANCELLED:
        return 409
    return 502 if run.error_code.startswith("model_") or run.error_code == "invalid_output" else 500
