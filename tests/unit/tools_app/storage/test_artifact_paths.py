"""Valid and invalid paths of artifacts."""

import pytest

from tools_app.storage.artifact_paths import BadPathError, checked, folded, numbered, usable_name


@pytest.mark.parametrize(
    "path",
    [
        "out/report.md",
        "files/a b/ü.txt",
        "out/.hidden",
        "out/1/2/3/4/5/6/7/8",
        "files/日本.csv",
        "out/a..b",
        "out/100%.txt",
    ],
)
def test_an_ordinary_path_stays_as_it_is(path):
    assert checked(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "out",
        "out/",
        "/out/a",
        "etc/passwd",
        "../out/a",
        "out/../a",
        "out/..",
        "out/./a",
        "out//a",
        "files/%2e%2e/x",
        "files/.%2E/x",
        "files/%252e/x",
        "out/..%2fa",
        "out/a%2F..%2Fb",
        "out/..%5ca",
        "out/a%25252fb",
        "out/a/",
        "out\\a",
        "out/a\\..\\b",
        "C:/out/a",
        "out/a:b",
        "out/a\0.txt",
        "out/a\n",
        "out/a\x1b[2J",
        "out/a\u202egnp.exe",
        "out/a\u200b",
        "out/ a",
        "out/a ",
        "out/a.",
        "out/con",
        "out/NUL.txt",
        "out/com1",
        "out/" + "a" * 101,
        "out/" + "a/" * 9 + "b",
        "out/" + "a/" * 120,
        "out/\ud800",
        "out/a*",
        "out/<a>",
        'out/"a"',
        "out/a|b",
        "OUT/a",
        "file:///out/a",
        "out/%00\x7f",
        "～/out/a",
    ],
)
def test_a_path_that_could_be_anything_else_is_refused_with_the_reason(path):
    with pytest.raises(BadPathError) as error:
        checked(path)
    assert 10 <= len(str(error.value)) <= 200


def test_two_spellings_of_one_name_are_one():
    assert checked("out/u\u0308.txt") == checked("out/\u00fc.txt")
    assert folded("out/Straße.TXT") == folded("out/STRASSE.txt")


@pytest.mark.parametrize("path", ["out/a%20b", "out/a%2eb", "out/%2e%2e%2e", "out/50%2", "out/%2g", "out/a%00"])
def test_other_percent_signs_mean_nothing(path):
    assert checked(path) == path


@pytest.mark.parametrize(
    ("path", "second"),
    [
        ("files/a.txt", "files/a (2).txt"),
        ("a", "a (2)"),
        (".hidden", ".hidden (2)"),
        ("x/a.tar.gz", "x/a.tar (2).gz"),
        ("out/" + "a" * 96 + ".txt", "out/" + "a" * 92 + " (2).txt"),
        ("a." + "b" * 90, "a." + "b" * 90 + " (2)"),
    ],
)
def test_one_more_file_of_a_name_has_a_number(path, second):
    assert numbered(path, 2) == second
    assert not path.startswith(("out/", "files/")) or checked(second) == second


@pytest.mark.parametrize(
    ("name", "usable"), [("%2e%2E", "_2e_2E"), ("..%2fa.txt", "_2fa.txt"), ("a%255Cb", "a_255Cb"), ("a%20b", "a%20b")]
)
def test_what_parsers_of_urls_decode_in_the_name_of_a_file_is_made_usable(name, usable):
    assert checked(f"files/{usable_name(name)}") == f"files/{usable}"
