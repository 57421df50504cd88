"""Calls after a commit: what fails is logged and does not reach the caller, whose work is stored."""

import logging
from functools import partial

import pytest
from django.db import transaction

from audit_app.kernel.after_commit import after_commit


def fail(where: str) -> None:
    raise RuntimeError(where)


def test_a_call_that_fails_is_logged_and_later_ones_still_run(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    with caplog.at_level(logging.ERROR), transaction.atomic():
        after_commit(fail, "broken")
        after_commit(partial(fail, "broken as well"))
        after_commit(seen.append, "later")
    assert seen == ["later"]
    assert "broken" in caplog.text


def test_nothing_is_called_after_a_rollback(transactional_db: None) -> None:
    seen: list[str] = []
    with pytest.raises(RuntimeError), transaction.atomic():
        after_commit(seen.append, "never")
        fail("the caller")
    assert seen == []


def test_a_call_of_a_rolled_back_savepoint_is_left_out(transactional_db: None) -> None:
    seen: list[str] = []
    with transaction.atomic():
        after_commit(seen.append, "outer")
        with pytest.raises(RuntimeError), transaction.atomic():
            after_commit(seen.append, "rolled back")
            fail("the savepoint")
        with transaction.atomic():
            after_commit(seen.append, "inner")
        after_commit(seen.append, "last")
    assert seen == ["outer", "inner", "last"]
