"""Hosts must share the data folder: a process that has another one is reported. SQLite is one host."""

from typing import Any

import pytest
from django.db import connection

from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness.pg_locks import PostgresMarks
from komand import doctor

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="processes are rows on PostgreSQL alone"),
]


def reported() -> list[doctor.Finding]:
    return [finding for finding in doctor.examine() if finding.name == "shared data folder"]


def test_a_process_with_another_data_folder_is_reported(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    marks = PostgresMarks()
    opened = [marks.open(new_id(), "web"), marks.open(new_id(), "runs")]
    assert not reported() and "another data folder" not in caplog.text
    settings.KOMAND_FOLDER_ID = "of another host"
    opened.append(marks.open(new_id(), "web"))
    assert "another data folder" in caplog.text and "KOMAND_DATA_DIR" in caplog.text
    [finding] = reported()
    assert not finding.ok and "KOMAND_DATA_DIR" in finding.mend
    for mark in opened:
        mark.close()
    assert not reported()


def test_a_process_of_the_release_before_is_not_reported(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    folder, settings.KOMAND_FOLDER_ID = settings.KOMAND_FOLDER_ID, ""
    old = PostgresMarks().open(new_id(), "web")
    settings.KOMAND_FOLDER_ID = folder
    mark = PostgresMarks().open(new_id(), "web")
    assert folder and not reported() and "another data folder" not in caplog.text
    for one in (old, mark):
        one.close()
