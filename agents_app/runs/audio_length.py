"""The length of audio files by their bytes (Ogg, WAV and MP4), and the limits of those to transcribe. Pure."""

import struct

MOST_BYTES = 25_000_000  # of audio to transcribe, as most servers have
_OPUS_RATE = 48_000  # of the positions in Ogg files with Opus, whatever the rate of the audio
_LAST_PAGE_BYTES = 70_000  # within which the last page of an Ogg file begins


def seconds_of(data: bytes) -> float | None:
    """Return the length in seconds; None if the format is not known or the file is damaged."""
    try:
        if data.startswith(b"OggS"):
            return _ogg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
            return _wav(data)
        if data[4:8] == b"ftyp":
            return _mp4(data)
    except (struct.error, ZeroDivisionError):
        return None
    return None


def objection(data: bytes, most_seconds: int) -> str:
    """Return the reason why audio is not transcribed, as the end of a sentence; empty if it may be."""
    if len(data) > MOST_BYTES:
        return f"it has more than {MOST_BYTES / 1_000_000:.0f} MB"
    if (seconds_of(data) or 0.0) <= most_seconds:
        return ""
    is_odd = most_seconds % 60
    return f"it is longer than {most_seconds} seconds" if is_odd else f"it is longer than {most_seconds // 60} minutes"


def _ogg(data: bytes) -> float | None:
    """Return the position of the last page, in samples, by the rate that the first page states."""
    at = data.rfind(b"OggS", max(0, len(data) - _LAST_PAGE_BYTES))
    (position,) = struct.unpack_from("<q", data, at + 6)
    header = data[28:68]
    if (opus := header.find(b"OpusHead")) >= 0:
        (skipped,) = struct.unpack_from("<H", header, opus + 10)
        return max(0.0, float(position - skipped) / _OPUS_RATE)
    if (vorbis := header.find(b"\x01vorbis")) >= 0:
        (rate,) = struct.unpack_from("<I", header, vorbis + 12)
        return max(0.0, float(position) / float(rate))
    return None


def _wav(data: bytes) -> float:
    """Return the bytes of the file by its bytes per second."""
    (rate,) = struct.unpack_from("<I", data, 28)
    return len(data) / float(rate)


def _mp4(data: bytes) -> float | None:
    """Return the duration in the box `mvhd`."""
    at = data.find(b"mvhd")
    if at < 0:
        return None
    is_long = data[at + 4 : at + 5] == b"\x01"
    scale, duration = struct.unpack_from(">IQ" if is_long else ">II", data, at + (24 if is_long else 16))
    return float(duration / scale)
