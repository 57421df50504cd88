"""The HTTP status of runs that did not complete."""

from unittest.mock import Mock

import pytest

from agents_app.types import RunStatus
from sessions_app.surfaces.base.run_errors import http_status_of


@pytest.mark.parametrize(
    ("status", "error_code", "expected"),
    [
        (RunStatus.CANCELLED, "", 409),
        (RunStatus.FAILED, "budget_exhausted", 402),
        (RunStatus.FAILED, "model_auth", 502),
        (RunStatus.FAILED, "invalid_output", 502),
        (RunStatus.FAILED, "time_limit", 500),
    ],
)
def test_the_status_says_whose_fault_it_is(status: RunStatus, error_code: str, expected: int) -> None:
    assert http_status_of(Mock(status=status, error_code=error_code)) == expected
