"""Fixtures of the integration tests: circuit breakers are reset, and statistics of PostgreSQL on request."""

import pytest
from django.apps import apps
from django.db import connection

from audit_app.kernel import nudges, valkey
from sessions_app.identity import rate_limits


@pytest.fixture(autouse=True)
def _reset_breakers() -> None:
    """Close the circuit breakers of Valkey, which a test with an outage leaves open for seconds."""
    for breaker in (rate_limits._breaker, nudges._breaker, valkey.breaker):
        breaker._open_until = float("-inf")


@pytest.fixture
def without_statistics(db: None) -> None:
    """Reset PostgreSQL's statistics, until the end of the test rolls back.

    They may be from a moment at which a table was empty.
    """
    if connection.vendor == "postgresql":
        tables = {connection.ops.quote_name(model._meta.db_table) for model in apps.get_models()}
        ours = sorted(table for table in tables if table.startswith('"komand_'))
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(ours)} CASCADE")
