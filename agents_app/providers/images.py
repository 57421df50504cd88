"""Images as models take them: checked, and scaled or converted if they have to be. Imports Pillow: import it late."""

from io import BytesIO

from PIL import Image, ImageOps

from agents_app.providers.accepts import Accepts, UnusablePartError

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
# Of the decoded image: four bytes of memory a pixel. A larger JPEG is decoded at a fraction of its size.
_MOST_PIXELS = 50_000_000
_QUALITY = 85
_SMALLEST_SIDE = 256

# Pillow's own guard against images that are small on disk and huge in memory. It raises at twice this number.
Image.MAX_IMAGE_PIXELS = 4 * _MOST_PIXELS


def prepare(data: bytes, accepts: Accepts) -> tuple[str, bytes]:
    """Return the media type and the bytes of an image within the limits: unchanged if it is, else converted.

    The whole image is decoded, so that no server gets a broken one. Of an animation the first picture is sent.
    Raises UnusablePartError. Takes up to a second of CPU time, and some hundred megabytes for the largest images.
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
    image.draft("RGB", (accepts.longest_side, accepts.longest_side))
    pixels = image.size[0] * image.size[1]
    if pixels > _MOST_PIXELS:
        raise UnusablePartError(f"it is too large to be scaled ({pixels / 1e6:.0f} megapixels)")
    image.load()
    fits = max(size) <= accepts.longest_side and len(data) <= accepts.most_bytes
    if fits and mime_type in accepts.types.get("image", ()) and not getattr(image, "is_animated", False):
        return mime_type, data
    return _converted(image, accepts)


def _converted(image: Image.Image, accepts: Accepts) -> tuple[str, bytes]:
    """Return the image scaled to the limits: as PNG if that is small enough, and as JPEG otherwise."""
    is_photo = image.format in ("JPEG", "MPO")  # MPO: a JPEG with a second picture, as cameras make
    picture = ImageOps.exif_transpose(image)
    has_alpha = picture.has_transparency_data
    picture = picture.convert("RGBA" if has_alpha else "RGB")
    side = accepts.longest_side
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
