"""Ranking of texts by the words of a query."""

import pytest

from tools_app.storage.memory_search import Document, rank, words

DOCUMENTS = [
    Document("favourite colour", "The person likes blue best."),
    Document("pets", "They have a cat called Blue and two dogs."),
    Document("work", "They cook in a restaurant in Zürich, mostly Italian."),
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
    ],
)
def test_the_best_come_first_and_what_has_nothing_of_it_not_at_all(query, expected):
    assert sorted(rank(DOCUMENTS, query)) == sorted(expected)
    assert rank(DOCUMENTS, query)[:1] == expected[:1] or len(expected) > 1


def test_a_rare_word_counts_more_than_a_frequent_one():
    documents = [Document("a", "tea tea tea"), Document("b", "tea coffee"), Document("c", "tea"), Document("d", "tea")]
    assert rank(documents, "tea coffee")[0] == 1


def test_a_word_of_the_key_counts_double():
    documents = [Document("x", "the colour of it"), Document("colour", "the look of it")]
    assert rank(documents, "colour")[0] == 1


def test_words_ignore_case_width_and_accents():
    assert words("Élan ＡＢＣ, straße!") == ["elan", "abc", "strasse"]
