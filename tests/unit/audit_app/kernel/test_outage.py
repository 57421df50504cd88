import logging

import pytest
from django.db import OperationalError

from audit_app.kernel.outage import OutageLog

caller = logging.getLogger("tests.caller")


def test_a_database_that_is_away_is_logged_once_with_its_end(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    outages = OutageLog(lambda: now)
    outages.worked()
    for _ in range(30):
        outages.failed(caller, OperationalError("connection refused\n"), "a sweep failed")
        now += 1
    outages.worked()
    outages.worked()
    assert [record.getMessage() for record in caplog.records] == [
        "the database is away, and everything that needs it waits: connection refused",
        "the database is back after 30 s",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_each_outage_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog()
    for _ in range(2):
        outages.failed(caller, OperationalError("gone"), "a sweep failed")
        outages.worked()
    assert len(caplog.records) == 4


def test_other_errors_are_logged_each_time_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog()
    for _ in range(2):
        outages.failed(caller, ValueError("a defect"), "a sweep failed")
    assert [(record.name, record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("tests.caller", "a sweep failed", True)
    ] * 2
