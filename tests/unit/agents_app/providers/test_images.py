"""Images as models take them, made and broken for real."""

import struct
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents_app.providers import images
from agents_app.providers.accepts import Accepts, UnusablePartError
from agents_app.providers.kinds.openai import OpenAIProvider

ROOT = Path(__file__).parents[4]
ACCEPTS = OpenAIProvider.parts


def picture(form: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> bytes:
    target = BytesIO()
    Image.new(mode, size, "red").save(target, form, **options)
    return target.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_within_the_limits_stays_as_it_is(form: str) -> None:
    data = picture(form)
    assert images.prepare(data, ACCEPTS) == (f"image/{form.lower()}", data)


def test_a_type_that_the_model_does_not_take_is_converted() -> None:
    mime_type, data = images.prepare(picture("WEBP"), Accepts({"image": ("image/png",)}))
    assert (mime_type, opened(data).format, opened(data).size) == ("image/png", "PNG", (40, 30))


@pytest.mark.parametrize(("form", "size"), [("PNG", (12_000, 300)), ("JPEG", (12_000, 9_000))])
def test_a_large_image_is_scaled(form: str, size: tuple[int, int]) -> None:
    mime_type, data = images.prepare(picture(form, size, "L"), ACCEPTS)
    assert mime_type == f"image/{form.lower()}"
    assert max(opened(data).size) == 2_048
    assert opened(data).width / opened(data).height == pytest.approx(size[0] / size[1], rel=0.05)


def test_a_progressive_jpeg_counts_at_its_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_MOST_BYTES", 60_000_000)
    assert images.prepare(picture("JPEG", (4_000, 3_000)), ACCEPTS)[0] == "image/jpeg"
    with pytest.raises(UnusablePartError, match="12 megapixels"):
        images.prepare(picture("JPEG", (4_000, 3_000), progressive=True), ACCEPTS)


def test_a_wide_photo_is_decoded_at_a_fraction_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_MOST_BYTES", 8_000_000)
    assert opened(images.prepare(picture("JPEG", (12_000, 300)), ACCEPTS)[1]).size == (2_048, 51)


PREPARE = """
import pathlib, re, sys
from agents_app.providers import images
from agents_app.providers.kinds.openai import OpenAIProvider
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
images.prepare(pathlib.Path(sys.argv[1]).read_bytes(), OpenAIProvider.parts)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("form", "mode", "side", "options"),
    [
        ("PNG", "RGBA", 5_000, {"compress_level": 1}),
        ("GIF", "P", 5_000, {}),
        ("WEBP", "RGBA", 3_535, {"quality": 1, "method": 0}),
        ("JPEG", "RGB", 5_900, {"progressive": True, "subsampling": 0}),
    ],
)
def test_the_largest_images_take_no_more_memory_than_allowed(
    form: str, mode: str, side: int, options: dict[str, Any], tmp_path: Path
) -> None:
    target = tmp_path / "picture"
    target.write_bytes(picture(form, (side, side), mode, **options))
    found = subprocess.run([sys.executable, "-c", PREPARE, str(target)], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 1.1 * images._MOST_BYTES


def test_an_image_of_too_many_bytes_becomes_a_smaller_one() -> None:
    noise = Image.effect_noise((600, 600), 100).convert("RGBA")
    target = BytesIO()
    noise.save(target, "PNG")
    mime_type, data = images.prepare(target.getvalue(), Accepts(ACCEPTS.types, most_bytes=100_000))
    assert mime_type == "image/jpeg" and len(data) <= 100_000 and opened(data).size[0] <= 600


def test_of_an_animation_the_first_picture_is_sent() -> None:
    target = BytesIO()
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    mime_type, data = images.prepare(target.getvalue(), ACCEPTS)
    assert mime_type == "image/png" and opened(data).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_a_scaled_photo_stands_upright_and_loses_its_metadata() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"  # orientation, make
    _, data = images.prepare(picture("JPEG", (3_000, 100), exif=exif), ACCEPTS)
    scaled = opened(data)
    assert scaled.height > scaled.width
    assert 0x010F not in scaled.getexif()


def png_header(width: int, height: int) -> bytes:
    """Return a PNG of this size whose pixels compress to nothing: a decompression bomb."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1_000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (picture("PNG", (200, 200))[:-40], "it is damaged"),
        (picture("JPEG", (200, 200))[:-300], "it is damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "it is damaged"),
        (b"BM" + bytes(100), "it is damaged"),
        (png_header(5_100, 5_100), r"it is too large to be scaled \(26 megapixels\)"),
        (png_header(100_000, 100_000), "it is too large to be scaled"),
    ],
    ids=["cut PNG", "cut JPEG", "no image", "another format", "a large bomb", "a huge bomb"],
)
def test_an_image_that_cannot_be_sent_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnusablePartError, match=reason):
        images.prepare(data, ACCEPTS)
