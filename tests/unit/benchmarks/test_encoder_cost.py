"""The benchmark of the projections of surfaces."""

import pytest

from benchmarks import encoder_cost
from benchmarks.scale import SURFACES
from benchmarks.surfaces import VIEWERS


def test_every_surface_is_both_watched_and_timed_alone() -> None:
    alone = [name for name in encoder_cost.ENCODERS if name != "web chat"]  # its visitors need an account
    assert list(VIEWERS) == alone and len(VIEWERS) == SURFACES


@pytest.mark.parametrize("name", encoder_cost.ENCODERS)
def test_a_projection_sends_every_piece_of_a_text(name: str) -> None:
    encode = encoder_cost.ENCODERS[name]()
    for number, event in enumerate(encoder_cost.events_of(("Roses ", "are ", "red."))):
        assert ("Roses", "are", "red.")[number] in encode(event).decode()
