from hypothesis import given
from hypothesis import strategies as st

from agents_app.providers.text_repair import StreamRepair, repair


def streamed(*pieces: str) -> str:
    repairer = StreamRepair()
    return "".join([*map(repairer.feed, pieces), repairer.finish()])


def test_halves_of_a_character_in_two_pieces_are_joined() -> None:
    assert streamed("ok \ud83d", "\ude00 fine") == "ok 😀 fine"


def test_a_half_whose_other_half_never_comes_is_replaced() -> None:
    assert streamed("a\ud83d", "b") == "a�b"
    assert streamed("a\ud83d") == "a�"
    assert streamed("\ude00") == "�"


def test_an_empty_piece_between_halves_changes_nothing() -> None:
    assert streamed("\ud83d", "", "\ude00") == "😀"


def test_nul_is_replaced() -> None:
    assert streamed("a\0b", "ä\0") == "a�bä�"


@given(st.lists(st.text(alphabet=st.characters(codec=None), max_size=4), max_size=6))
def test_pieces_mended_one_by_one_are_the_whole_mended(pieces: list[str]) -> None:
    text = streamed(*pieces)
    assert text == repair("".join(pieces))
    assert text.encode("utf-8").decode("utf-8") == text


@given(st.text())
def test_good_text_stays_as_it_is(text: str) -> None:
    assert repair(text) == text.replace("\0", "�")
