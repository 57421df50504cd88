"""Workers whose live text does not reach Valkey, beside viewers whose Valkey works."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.support.engine import EngineRig


@contextmanager
def hanging_server(place: Path) -> Iterator[str]:
    """Yield the URL of a server that takes connections and never answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen(64)
        yield f"unix://{place}"


@contextmanager
def cut_off_worker(monkeypatch: pytest.MonkeyPatch, folder: Path, *, hangs: bool) -> Iterator[EngineRig]:
    """Yield a started engine. hangs: its Valkey takes connections and never answers; else there is none."""
    rig, working = EngineRig(monkeypatch), settings.KOMAND_REDIS_URL
    with hanging_server(folder / "hangs.sock") as url:
        monkeypatch.setattr(settings, "KOMAND_REDIS_URL", url if hangs else f"unix://{folder}/no")
        rig.start()
        monkeypatch.setattr(settings, "KOMAND_REDIS_URL", working)
        yield rig
        rig.stop()
