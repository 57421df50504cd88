"""The time for a shutdown: as set, and less after `hurry`."""

from typing import Any

import pytest

from audit_app.kernel import shutdown


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "_is_hurried", False)


@pytest.mark.parametrize(("patient", "hurried"), [(25, 3.0), (1, 1.0), (0, 0.0)])
def test_a_hurry_shortens_it(settings: Any, patient: int, hurried: float) -> None:
    settings.KOMAND_DRAIN_SECONDS = patient
    assert shutdown.seconds() == patient
    shutdown.hurry()
    assert shutdown.seconds() == hurried
