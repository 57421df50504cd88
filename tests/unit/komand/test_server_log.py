"""The web server's own log, which was discarded: a process without file descriptors refused connections silently."""

import errno
import logging
import os

import pytest
from twisted.internet import tcp
from twisted.logger import Logger
from twisted.python.failure import Failure

from komand.server_log import Observer


class FullListener:
    """A listening socket of a process without free file descriptors."""

    def accept(self) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of the observer: asyncio logs what it finds of earlier tests at any time."""
    return [record for record in caplog.records if record.name == "komand.server_log"]


def test_refused_connections_are_logged_with_the_remedy_and_not_each(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    logger = Logger("twisted", observer=Observer(lambda: now))
    for _ in range(50):
        list(tcp._accept(logger, range(3), FullListener(), tcp._NullFileDescriptorReservation()))
        now += 0.3
    assert len(own_records(caplog)) == 2
    assert "file descriptors are in use; raise `ulimit -n`" in caplog.text


def test_errors_of_the_server_are_logged_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    logger = Logger("twisted", observer=Observer())
    logger.info("Starting factory")
    logger.failure("Unhandled error in Deferred", Failure(ValueError("a defect")))
    [record] = own_records(caplog)
    assert record.levelno == logging.ERROR and record.exc_info and "a defect" in caplog.text
