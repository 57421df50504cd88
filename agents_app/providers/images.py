"""Images as models take them: checked, and scaled or converted if they have to be. Imports Pillow: import it late."""

from io import BytesIO
from math import ceil

from PIL import Image, ImageOps

from agents_app.providers.accepts import Accepts, UnusablePartError

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
# The memory that one image may take while it is decoded and scaled. A larger JPEG is decoded at a fraction of its size.
_MOST_BYTES = 250_000_000
# Of a decoded pixel, with the copies in which it is scaled. The decoder of WebP keeps three pictures of its own.
_PIXEL_BYTES = {"JPEG": 4, "MPO": 4, "PNG": 10, "GIF": 10, "WEBP": 20}
# Of a pixel of a progressive JPEG, whose decoder keeps all coefficients at full size.
_COEFFICIENT_BYTES = 6
_QUALITY = 85
_SMALLEST_SIDE = 256
# Modes whose pixels can be averaged: not those of a palette, nor with a transparent colour.
_SCALABLE = ("L", "LA", "RGB", "RGBA", "CMYK")

# Pillow's own guard against images that are small on disk and huge in memory. It raises at twice this number.
Image.MAX_IMAGE_PIXELS = 200_000_000


def prepare(data: bytes, accepts: Accepts) -> tuple[str, bytes]:
    """Return the media type and the bytes of an image within the limits: unchanged if it is, else converted.

    The whole image is decoded, so that no server gets a broken one. Of an animation the first picture is sent.
    Raises UnusablePartError. Takes up to a second of CPU time, and up to 250 MB of memory for the largest images.
    """
    try:
        with Image.open(BytesIO(data), formats=_FORMATS) as image:
            return _fitted(image, data, accepts)
    except UnusablePartError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnusablePartError("it is too large to be scaled") from None
    except Exception as error:  # decoders raise errors of many kinds on broken data
        raise UnusablePartError("it is damaged") from error


def _fitted(image: Image.Image, data: bytes, accepts: Accepts) -> tuple[str, bytes]:
    mime_type, size = Image.MIME[image.format or ""], image.size
    scale = min(accepts.longest_side / max(size), 1)
    image.draft("RGB", (ceil(size[0] * scale), ceil(size[1] * scale)))
    if _needed_bytes(image, size) > _MOST_BYTES:
        raise UnusablePartError(f"it is too large to be scaled ({size[0] * size[1] / 1e6:.0f} megapixels)")
    image.load()
    fits = max(size) <= accepts.longest_side and len(data) <= accepts.most_bytes
    if fits and mime_type in accepts.types.get("image", ()) and not getattr(image, "is_animated", False):
        return mime_type, data
    return _converted(image, accepts)


def _needed_bytes(image: Image.Image, size: tuple[int, int]) -> int:
    """Return the memory that it takes to decode and scale the image. size: on disk, before `draft`."""
    coefficients = _COEFFICIENT_BYTES * size[0] * size[1] if "progressive" in image.info else 0
    return coefficients + _PIXEL_BYTES[image.format or ""] * image.size[0] * image.size[1]


def _converted(image: Image.Image, accepts: Accepts) -> tuple[str, bytes]:
    """Return the image scaled to the limits: as PNG if that is small enough, and as JPEG otherwise."""
    is_photo = image.format in ("JPEG", "MPO")  # MPO: a JPEG with a second picture, as cameras make
    side = accepts.longest_side
    if image.mode in _SCALABLE and "transparency" not in image.info:
        image.thumbnail((side, side))  # before conversions, which copy it
    ImageOps.exif_transpose(image, in_place=True)
    mode = "RGBA" if image.has_transparency_data else "RGB"
    picture = image if image.mode == mode else image.convert(mode)
    while side >= _SMALLEST_SIDE:
        picture.thumbnail((side, side))
        if not is_photo and len(data := _saved(picture, "PNG")) <= accepts.most_bytes:
            return "image/png", data
        if len(data := _saved(_opaque(picture), "JPEG", quality=_QUALITY)) <= accepts.most_bytes:
            return "image/jpeg", data
        side = max(picture.size) // 2
    raise UnusablePartError("it cannot be made small enough")


def _opaque(picture: Image.Image) -> Image.Image:
    if picture.mode == "RGB":
        return picture
    ground = Image.new("RGB", picture.size, "white")
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _saved(picture: Image.Image, form: str, **options: int) -> bytes:
    target = BytesIO()
    picture.save(target, form, **options)
    return target.getvalue()
