"""What the benchmark of the encoders measures."""

import pytest

from benchmarks import encoder_cost
from benchmarks.scale import SURFACES
from benchmarks.surfaces import VIEWERS


def test_every_surface_is_both_watched_and_timed_alone() -> None:
    assert list(VIEWERS) == list(encoder_cost.ENCODERS) and len(VIEWERS) == SURFACES


@pytest.mark.parametrize("name", encoder_cost.ENCODERS)
def test_an_encoder_says_every_piece_of_a_text(name: str) -> None:
    encode = encoder_cost.ENCODERS[name]()
    for number, fact in enumerate(encoder_cost.facts_of(("Roses ", "are ", "red."))):
        assert ("Roses", "are", "red.")[number] in encode(fact).decode()
