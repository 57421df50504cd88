"""Secrets are masked by their field's name, by their pattern, and if this process has used them."""

import json
from base64 import b64encode
from collections import OrderedDict
from urllib.parse import quote, quote_plus

import pytest

from audit_app.kernel import redact
from audit_app.kernel.redact import MASK, masked, masked_text, remember, without_remembered

SECRET = 'pA$$w0rd/with "quotes" & ümläuts'


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(redact, "_remembered", OrderedDict())
    monkeypatch.setattr(redact, "_spellings", ())


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower().replace("pa", "pA", 1).replace("%24", "%24"),
        quote_plus(SECRET),
        b64encode(SECRET.encode()).decode(),
        repr({"key": SECRET}),
    ],
)
def test_a_used_secret_is_masked_in_every_encoding(spelled):
    remember(SECRET)
    shown = masked_text(f"before {spelled} after")
    assert MASK in shown and "before" in shown and "after" in shown
    assert "w0rd" not in shown and "cEEk" not in shown


def test_it_is_masked_within_values_of_any_depth():
    remember(SECRET)
    assert masked({"a": [{"b": f"x{SECRET}y"}]}) == {"a": [{"b": f"x{MASK}y"}]}


def test_text_that_only_looks_like_a_secret_stays_where_text_must_not_change():
    remember(SECRET)
    text = "sk-abcdefghijklmnopqrstuvwxyz"
    assert without_remembered(text) == text
    assert masked_text(text) == MASK


def test_a_short_value_is_not_masked_within_words():
    remember("abc")
    assert masked_text("abcdef") == "abcdef"


def test_the_lines_of_a_key_are_masked_one_by_one():
    remember("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END KEY-----")
    assert "MIIEvQ" not in masked_text("line: MIIEvQIBADANBgkqhkiG9w0BAQ")


def test_a_secret_that_begins_with_another_is_masked_whole():
    remember("12345678")
    remember("12345678-and-more")
    assert masked_text("12345678-and-more") == MASK


def test_the_least_recently_used_are_dropped(monkeypatch):
    monkeypatch.setattr(redact, "_MOST_REMEMBERED", 2)
    for name in ("one-secret", "two-secret", "one-secret", "three-secret"):
        remember(name)
    assert masked_text("one-secret two-secret three-secret") == f"{MASK} two-secret {MASK}"


@pytest.mark.parametrize("name", ["accessToken", "client_secret", "dbPassword", "X-Api-Key", "OPENAI_API_KEY", "token"])
def test_a_field_is_masked_by_the_last_word_of_its_name(name):
    assert masked({name: "hunter2"}) == {name: MASK}


@pytest.mark.parametrize("name", ["compass", "tokenizer", "secretary", "keyboard", "max_length", "monkey", "passes"])
def test_a_field_whose_name_contains_such_a_word_within_another_is_not(name):
    assert masked({name: "hunter2"}) == {name: "hunter2"}
