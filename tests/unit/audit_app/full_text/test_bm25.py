"""Ranking of texts by the words of a query."""

import pytest

from audit_app.full_text.bm25 import rank
from audit_app.full_text.query import like, parse

TEXTS = [
    "favourite colour: The person likes blue best.",
    "pets: They have a cat called Blue and two dogs.",
    "work: They cook in a restaurant in Zürich, mostly Italian.",
    "file_name: memory_store in 東京",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("blue colour", [0, 1]),
        ("CAT", [1]),
        ("zurich", [2]),
        ("cooking", [2]),
        ("nothing of that", []),
        ("", []),
        ("restaurant cat", [1, 2]),
        ("store", [3]),
        ("東京", [3]),
    ],
)
def test_the_best_come_first_and_what_has_nothing_of_it_not_at_all(query: str, expected: list[int]) -> None:
    assert sorted(rank(TEXTS, like(query))) == sorted(expected)
    assert rank(TEXTS, like(query))[:1] == expected[:1] or len(expected) > 1


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    assert rank(["tea tea tea", "tea coffee", "tea", "tea"], like("tea coffee"))[0] == 1


def test_a_phrase_counts_as_a_whole() -> None:
    assert rank(["the reeds of the heron", "the heron", "The, heron!"], parse('"the heron"')) == [1, 2, 0]
