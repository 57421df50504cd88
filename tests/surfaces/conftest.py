"""A gateway with its engine, for the servers of platforms that run as programs."""

from collections.abc import Iterator

import pytest

from tests.support.engine import EngineRig


@pytest.fixture
def rig(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    rig = EngineRig(monkeypatch).start()
    yield rig
    rig.stop()
