import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.providers.http_stream import MAX_PAYLOAD_BYTES, PayloadTooLargeError, SseParser


def payloads_of(*received: bytes) -> list[bytes]:
    parser = SseParser()
    return [payload for part in received for payload in parser.feed(part)] + parser.finish()


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"a": 1}\n\ndata: [DONE]\n\n',
        b'data:{"a": 1}\n\ndata:[DONE]\n\n',
        b'data: {"a": 1}\r\n\r\ndata: [DONE]\r\n\r\n',
        b': ping\n\nevent: x\nid: 3\nretry: 5\ndata: {"a": 1}\n\n: ping\n\ndata: [DONE]\n\n',
        b'data: {"a": 1}\ndata: [DONE]\n',
        b'\n\n\ndata: {"a": 1}\n\n\n\ndata: [DONE]',
    ],
    ids=["plain", "no-space", "crlf", "comments-and-fields", "no-blank-lines", "no-last-newline"],
)
def test_events_are_found_in_every_dialect(stream: bytes) -> None:
    assert payloads_of(stream) == [b'{"a": 1}', b"[DONE]"]


def test_an_error_in_a_field_of_its_own_is_an_event() -> None:
    stream = b'data: {"a": 1}\n\nerror: {"code": 500, "message": "boom"}\n\n'
    assert payloads_of(stream) == [b'{"a": 1}', b'{"error": {"code": 500, "message": "boom"}}']


def test_an_event_comes_out_as_soon_as_it_is_complete() -> None:
    parser = SseParser()
    assert parser.feed(b"data: on") == []
    assert parser.feed(b"e\n") == []
    assert parser.feed(b"\ndata: two") == [b"one"]


def test_data_lines_of_one_event_are_joined() -> None:
    assert payloads_of(b'data: {\ndata:   "a": {}\ndata: }\n\n') == [b'{\n  "a": {}\n}']


@given(st.data())
def test_it_does_not_matter_where_the_bytes_are_cut(data: st.DataObject) -> None:
    stream = ': hi\r\n\r\ndata: {"text": "ä€😀"}\r\n\r\ndata: {"b": 2}\n\ndata: [DONE]\n\n'.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert payloads_of(*parts) == payloads_of(stream)


@pytest.mark.parametrize("part", [b"data: " + b"x" * 60_000, b"data: " + b"x" * 60_000 + b"\n"])
def test_an_endless_event_is_refused(part: bytes) -> None:
    parser = SseParser()
    with pytest.raises(PayloadTooLargeError):
        for _ in range(MAX_PAYLOAD_BYTES // 60_000 + 1):
            parser.feed(part)


def test_a_large_event_in_many_parts_is_taken() -> None:
    text = b"x" * (MAX_PAYLOAD_BYTES - 100)
    parts = [text[at : at + 65_536] for at in range(0, len(text), 65_536)]
    assert payloads_of(b"data: ", *parts, b"\n\n") == [text]
