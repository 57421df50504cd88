"""Channels of installed packages, found by their entry points."""

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from komand import wiring

pytestmark = pytest.mark.one_database

ADAPTER = """
from sessions_app.platforms.adapters.fake import Fake

class Carrier(Fake):
    slug = "carrier"

not_an_adapter = dict
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Install a package with an entry point."""
    (folder / "carrier_channel.py").write_text(ADAPTER)
    about = folder / "carrier_channel-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: carrier-channel\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[komand.channels]\ncarrier = {value}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "carrier_channel", raising=False)


def test_an_installed_package_adds_a_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "carrier_channel:Carrier")
    [entry] = entry_points(group="komand.channels")
    assert wiring.channel_of_package(entry).slug == "carrier"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("carrier_channel:Missing", "Missing"),
        ("carrier_channel:not_an_adapter", "not a ChannelAdapter"),
        ("sessions_app.platforms.adapters.webhook:Webhook", "exists already"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    install(tmp_path, monkeypatch, value)
    [entry] = entry_points(group="komand.channels")
    with pytest.raises(ImproperlyConfigured, match=f"of carrier-channel cannot be used: .*{problem}"):
        wiring.channel_of_package(entry)
