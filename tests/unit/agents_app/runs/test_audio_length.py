"""The length of audio files, of whole and damaged ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.runs.audio_length import seconds_of


def ogg(head: bytes, position: int) -> bytes:
    first = b"OggS" + bytes(24) + head
    return first + bytes(1000) + b"OggS\0\x04" + struct.pack("<q", position) + bytes(14)


OPUS = b"OpusHead\x01\x01" + struct.pack("<H", 312) + bytes(9)
VORBIS = b"\x01vorbis" + bytes(5) + struct.pack("<I", 44_100) + bytes(14)
WAV = b"RIFF" + bytes(4) + b"WAVEfmt " + bytes(12) + struct.pack("<I", 1000) + bytes(1968)
MP4 = bytes(4) + b"ftypM4A " + bytes(20) + b"mvhd" + bytes(12) + struct.pack(">II", 1000, 2500) + bytes(80)
LONG_MP4 = bytes(4) + b"ftypisom" + b"mvhd\x01" + bytes(19) + struct.pack(">IQ", 90_000, 900_000)


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        (ogg(OPUS, 312 + 96_000), 2.0),
        (ogg(VORBIS, 88_200), 2.0),
        (ogg(b"Speex   ", 8_000), None),
        (WAV, 2.0),
        (MP4, 2.5),
        (LONG_MP4, 10.0),
        (b"ID3" + bytes(400), None),
        (b"OggS", None),
        (bytes(4) + b"ftypM4A mvhd", None),
        (b"", None),
    ],
)
def test_the_length_is_read(data: bytes, seconds: float | None) -> None:
    assert seconds_of(data) == seconds


@given(st.sampled_from([b"OggS", b"RIFF\0\0\0\0WAVE", b"\0\0\0\0ftyp", ogg(OPUS, 1)]), st.binary(max_size=120))
def test_any_bytes_are_read(head: bytes, rest: bytes) -> None:
    found = seconds_of(head + rest)
    assert found is None or found >= 0
