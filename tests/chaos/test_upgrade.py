"""An upgrade under load, and back: no request refused, no run failed, every message answered once."""

from pathlib import Path

import pytest

from tests.support.postgres import find_install
from tests.upgrade.proof import DATABASES, REVISION, run_proof
from tests.upgrade.releases import UnknownRevision

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("database", DATABASES)
def test_an_upgrade_and_its_way_back_lose_refuse_and_repeat_nothing(tmp_path: Path, database: str) -> None:
    if database == "postgres" and find_install() is None:
        pytest.skip("no PostgreSQL for this platform: the upgrade on it is NOT tested")
    try:
        run_proof(tmp_path, database)
    except UnknownRevision as error:
        pytest.skip(f"{REVISION} is not in this clone, fetch its history; the upgrade is NOT tested: {error}")
