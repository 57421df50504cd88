"""Isolation of the items of a sweep: one that fails keeps no other from being handled."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from audit_app.kernel.database import is_away

logger = logging.getLogger(__name__)


@contextmanager
def isolated(item: str) -> Iterator[None]:
    """Log an error of the block instead of raising it, unless the database is away. item: its subject, for the log."""
    try:
        yield
    except Exception as error:
        if is_away(error):
            raise
        logger.exception("%s failed; retrying in a second", item)
