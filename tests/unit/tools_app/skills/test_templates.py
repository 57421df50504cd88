"""Templates of HTTP requests: each place takes one value, escaped for that place."""

import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.skills.templates import BadTemplate, HttpTemplate, UnfitValue, check_template, render

BASE = "https://api.example.com"
HOSTILE = [
    "a/b",
    "a?b=c",
    "a#b",
    "..%2f",
    "a&b=c",
    "a b",
    "@evil.example",
    "ä",
    "%00",
    "\r\nX: y",
    '"',
    "{{input.x}}",
    "\\",
]


def filled(values=None, credentials=None, **parts):
    template = HttpTemplate(**{"method": "GET", "url": BASE, **parts})
    check_template(template)
    return render(template, values or {}, credentials or {})


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_fills_one_segment_of_the_path(value):
    url = filled({"x": value}, url=f"{BASE}/v1/{{{{input.x}}}}/end?a=1").url
    found = urlsplit(url)
    assert (found.netloc, found.query, found.fragment) == ("api.example.com", "a=1", "")
    first, second, third = found.path.split("/")[1:]
    assert (first, unquote(second), third) == ("v1", value, "end")


@pytest.mark.parametrize("value", ["", ".", "..", None])
def test_a_value_cannot_climb_out_of_its_place_in_the_path(value):
    with pytest.raises(UnfitValue, match="must not be empty"):
        filled({"x": value}, url=f"{BASE}/v1/{{{{input.x}}}}/end")


@given(st.text())
def test_a_value_is_one_value_of_the_query(value):
    query = urlsplit(filled({"x": value}, url=f"{BASE}/p?a={{{{input.x}}}}", query={"b": "<{{input.x}}>"}).url).query
    seen = parse_qs(query, keep_blank_values=True)
    sent = value.encode(errors="replace").decode()
    assert seen == {"a": [sent], "b": [f"<{sent}>"]}


@given(st.text())
def test_a_value_stays_within_its_text_of_a_json_body(value):
    body = filled({"x": value}, method="POST", json_body={"a": ["{{ input.x }}!"], "b": 1}).body
    assert json.loads(body) == {"a": [value.encode(errors="replace").decode() + "!"], "b": 1}


def test_a_whole_json_text_takes_the_value_as_it_is_and_goes_when_there_is_none():
    json_body = {
        "n": "{{input.n}}",
        "list": "{{input.list}}",
        "gone": "{{input.gone}}",
        "null": None,
        "deep": "{{input.o.p}}",
    }
    values = {"n": 1.5, "list": [{"a": True}], "o": {"p": 7}}
    body = filled(values, method="POST", json_body=json_body).body
    assert json.loads(body) == {"n": 1.5, "list": [{"a": True}], "null": None, "deep": 7}


def test_a_form_is_encoded_and_named_as_one():
    request = filled({"x": "a&b=c ü"}, method="POST", form={"q": "{{input.x}}", "none": "{{input.y}}"})
    assert parse_qs(request.body.decode()) == {"q": ["a&b=c ü"]}
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "ä"])
def test_a_header_takes_one_line_of_printable_ascii(value):
    with pytest.raises(UnfitValue, match="one line"):
        filled({"x": value}, headers={"X-Name": "{{input.x}}"})


def test_what_is_optional_and_missing_is_left_out():
    request = filled({}, query={"q": "{{input.q}}", "fixed": "1"}, headers={"X-Q": "{{input.q}}"})
    assert request.url == f"{BASE}?fixed=1" and request.headers == {}


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_only_plain_values_become_text(value):
    with pytest.raises(UnfitValue, match="must be a string"):
        filled({"x": value}, query={"q": "a{{input.x}}"})


def test_truth_values_and_numbers_are_written_as_json_writes_them():
    assert filled({"a": True, "b": 2}, query={"q": "{{input.a}}-{{input.b}}"}).url.endswith("q=true-2")


def test_credentials_are_named_once_and_filled_in_where_they_may_stand():
    template = HttpTemplate(
        "POST",
        BASE,
        query={"k": "{{credential:a}}"},
        headers={"Authorization": "Bearer {{credential:b.c-d}}"},
        json_body={"deep": ["{{credential:a}}"]},
    )
    check_template(template)
    assert template.credentials == ("a", "b.c-d")
    request = render(template, {}, {"a": "1&2", "b.c-d": "token"})
    assert request.headers["Authorization"] == "Bearer token" and request.url.endswith("?k=1%262")


def test_what_a_model_gives_is_not_filled_in_again():
    request = filled({"x": "{{credential:a}}"}, {"a": "secret"}, query={"q": "{{input.x}}", "k": "{{credential:a}}"})
    assert "secret" not in request.url.split("&")[0]


@pytest.mark.parametrize(
    "parts",
    [
        {"url": "https://{{input.host}}/x"},
        {"url": "https://api.example.com{{input.x}}"},
        {"url": "https://api.example.com:{{input.port}}/"},
        {"url": "ftp://api.example.com/"},
        {"url": "https://user:password@api.example.com/"},
        {"url": "https://api.example.com/#x"},
        {"url": "https://api.example.com/a b"},
        {"url": "https://api.example.com/{{credential:a}}"},
        {"url": "https://api.example.com/{{other}}"},
        {"url": "/x"},
        {"headers": {"Host": "x"}},
        {"headers": {"X-{{input.a}}": "x"}},
        {"headers": {"Content-Length": "1"}},
        {"query": {"q": "{{input.}}"}},
        {"query": {"q": "{{ env.SECRET }}"}},
        {"json_body": {"a": 1}},
        {"method": "POST", "json_body": {"a": 1}, "form": {}},
        {"method": "POST", "json_body": {"a": "{{nothing}}"}},
    ],
)
def test_a_template_that_could_mean_something_else_is_refused(parts):
    with pytest.raises(BadTemplate):
        filled(**parts)
