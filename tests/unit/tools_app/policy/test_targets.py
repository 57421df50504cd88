"""Normalization of URLs and paths, and refusal of ambiguous ones."""

import os
from pathlib import Path

import pytest

from tools_app.policy.targets import read_path, read_url, suspect_urls, targets_of
from tools_app.types import TargetKind, ToolSpec


@pytest.mark.parametrize(
    ("text", "authority", "path"),
    [
        ("https://example.com", "example.com", "/"),
        ("HTTPS://Example.COM:443/a", "example.com", "/a"),
        ("https://example.com./a", "example.com", "/a"),
        ("https://example.com:8443/a", "example.com:8443", "/a"),
        ("https://example.com/a/../b/./c", "example.com", "/b/c"),
        ("https://example.com/a/%2e%2e/b", "example.com", "/b"),
        ("https://example.com/../../b/", "example.com", "/b/"),
        ("https://example.com/a?b=../c", "example.com", "/a?b=../c"),
        ("https://\uff45xample.com/", "example.com", "/"),
        ("https://example\u3002com/", "example.com", "/"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", "/"),
        ("http://2130706433/", "127.0.0.1", "/"),
        ("http://0x7f.1/", "127.0.0.1", "/"),
        ("http://127.1/", "127.0.0.1", "/"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1", "/"),
        ("http://[0:0::1]:80/", "[::1]", "/"),
    ],
)
def test_a_url_has_one_spelling(text, authority, path):
    url = read_url(text)
    assert url is not None
    assert (url.authority, url.path) == (authority, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://a:b@example.com/",
        "https://example.com\\@evil.example/",
        "https://exam ple.com/",
        "https://example.com/\n",
        "\thttps://example.com",
        "https://example.com:99999/",
        "https://[::1/",
        "mailto:a@example.com",
        "https://a..b/",
    ],
)
def test_what_may_be_read_in_two_ways_is_no_url(text):
    assert read_url(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "https://user:secret@evil.example/",
        "https:\\\\evil.example\\x",
        "evil.example/x",
        "//evil.example/x",
        " https://evil.\texample/",
        "HTTPS://EVIL.EXAMPLE.:443",
        "https:////evil.example/",
        "https://good.example@evil.example",
        "http://evil.example?@good.example/",
        "http://evil.example#@good.example/",
        "https://good.example\\@evil.example",
        "https://ev%69l.example/",
        "https://evil.example%2f@good.example/",
        "http:evil.example",
        "https://evil.example is nice",
        "https://evil.example%00.good.example",
        "https://\uff45vil.example/",
        "https://evil\u3002example/",
    ],
)
def test_a_rule_that_refuses_sees_through_them(text):
    assert "evil.example" in [url.host for url in suspect_urls(text)]


def test_a_name_that_standards_read_differently_is_allowed_by_neither_and_refused_by_both():
    assert read_url("https://stra\xdfe.example/") is None
    found = {url.host for url in suspect_urls("https://stra\xdfe.example/")}
    assert found == {"strasse.example", "xn--strae-oqa.example"}


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string", "format": "uri"},
        {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
        {"type": "array", "items": {"type": "string", "format": "uri"}},
    ],
)
def test_a_url_in_a_choice_or_a_list_is_a_target(rule):
    spec = ToolSpec("get", "", {"type": "object", "properties": {"where": rule, "how": {"type": "string"}}})
    assert targets_of(spec) == {"where": TargetKind.URL}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("notes.txt", "notes.txt"),
        ("./a//b/../c", "a/c"),
        ("", "."),
        ("..", None),
        ("a/../../b", None),
        ("/etc/passwd", None),
        ("~/x", None),
        ("..\\x", None),
        ("..%2fx", None),
        ("a/%252e%252e/x", None),
        ("a\0b", None),
        ("a\u202eb", None),
    ],
)
def test_a_path_stays_in_the_folder(text, found):
    assert read_path(text, "/srv/files", os.path.normpath) == found


def test_a_folder_whose_name_begins_alike_is_another_one():
    assert read_path("../files-of-others/x", "/data/files", os.path.normpath) is None
    assert read_path("/data/files/x", "/data/files/", os.path.normpath) == "x"


def test_a_link_that_leads_out_is_followed(tmp_path: Path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "door").symlink_to(outside)
    (inside / "here").symlink_to(inside / "real")
    assert read_path("door/secret", str(inside), os.path.realpath) is None
    assert read_path("here", str(inside), os.path.realpath) == "real"
    assert read_path("door/secret", str(inside), str) is not None  # who follows no link cannot know
