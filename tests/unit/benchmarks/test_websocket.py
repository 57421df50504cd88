"""The load client's WebSocket frames."""

import pytest

from benchmarks.websocket import FrameReader, client_frame


def server_frame(payload: bytes, opcode: int = 1, *, last: bool = True) -> bytes:
    first = bytes([(0x80 if last else 0) | opcode])
    if len(payload) < 126:
        return first + bytes([len(payload)]) + payload
    if len(payload) < 65536:
        return first + b"\x7e" + len(payload).to_bytes(2, "big") + payload
    return first + b"\x7f" + len(payload).to_bytes(8, "big") + payload


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65535, 65536])
def test_a_message_of_any_length_is_read_whole(length: int) -> None:
    payload = b"x" * length
    assert list(FrameReader().feed(server_frame(payload))) == [(1, payload)]


def test_messages_are_found_however_the_bytes_are_cut() -> None:
    data = server_frame(b"one") + server_frame(b"two" * 100) + server_frame(b"", opcode=9)
    reader, found = FrameReader(), []
    for at in range(len(data)):
        found += reader.feed(data[at : at + 1])
    assert found == [(1, b"one"), (1, b"two" * 100), (9, b"")]


def test_a_fragmented_message_is_joined_and_a_ping_between_comes_first() -> None:
    data = server_frame(b"be", last=False) + server_frame(b"", opcode=9) + server_frame(b"gin", opcode=0)
    assert list(FrameReader().feed(data)) == [(9, b""), (1, b"begin")]


@pytest.mark.parametrize("length", [0, 125, 126, 65536])
def test_client_frames_are_masked_and_carry_their_length(length: int) -> None:
    frame = client_frame(1, b"y" * length)
    unmasked = bytes([frame[0], frame[1] & 0x7F]) + frame[2:].replace(b"\0\0\0\0", b"", 1)
    assert frame[1] & 0x80
    assert length == 65536 or list(FrameReader().feed(unmasked)) == [(1, b"y" * length)]
