"""YAML files of users: each fault is a problem with its line."""

import pytest

from agents_app.yaml_documents import UnusableFile, read


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "line 1: the file: it is not YAML"),
        ("a: &x 1\nb: *x", "aliases (`*name`) are not supported"),
        ("[" * 2000, "it is not YAML"),
        ('a: !!int ""', "it is not YAML: a value does not match its tag"),
        ('a: !!float ""', "it is not YAML: a value does not match its tag"),
        ("a: !!bool maybe", "it is not YAML: a value does not match its tag"),
        ("a: !!timestamp soon", "it is not YAML: a value does not match its tag"),
    ],
)
def test_a_file_that_is_not_yaml_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        read(text, "Nothing was imported")
    assert refused.value.message.startswith("Nothing was imported:")
    assert problem in refused.value.message


def test_each_place_has_its_line() -> None:
    document = read("a:\n- b: 1\n- c: 2\n", "")
    assert document.content == {"a": [{"b": 1}, {"c": 2}]}
    assert document.problem("a[1].c", "").line == 3 and document.problem("a[1].missing", "").line == 3
