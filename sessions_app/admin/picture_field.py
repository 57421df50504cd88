"""The form field of a small picture in an account's settings: a file that is scaled, and stored as a data address."""

from importlib import import_module
from typing import Any

from django import forms
from django.core.files.base import File
from django.template.loader import render_to_string

from agents_app.providers.accepts import Accepts, UnusablePartError
from sessions_app.platforms.small_pictures import MOST_BYTES, address_of

_IMAGES = "agents_app.providers.images"  # imports Pillow
_MOST_UPLOADED = 10_000_000
_ACCEPTED = "image/png,image/jpeg,image/webp,image/gif"
_ACCEPTS = Accepts({"image": ("image/png", "image/jpeg")}, most_bytes=MOST_BYTES, longest_side=256)


class PictureInput(forms.ClearableFileInput):
    """Shows the stored picture, with a box that removes it."""

    def is_initial(self, value: Any) -> bool:
        return bool(value) and isinstance(value, str)

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        context = self.get_context(name, value, {**(attrs or {}), "accept": _ACCEPTED})
        return render_to_string("admin/sessions_app/channelaccount/picture_input.html", context)


class PictureField(forms.FileField):
    """A picture. Its value is the data address, or empty."""

    widget = PictureInput

    def clean(self, data: Any, initial: Any = None) -> str:
        cleaned = super().clean(data, initial)
        return self._scaled(cleaned) if isinstance(cleaned, File) else cleaned or ""

    def _scaled(self, file: "File[Any]") -> str:
        if (file.size or 0) > _MOST_UPLOADED:
            raise forms.ValidationError("This picture has more than 10 MB.")
        try:
            return address_of(*import_module(_IMAGES).prepare(file.read(), _ACCEPTS))
        except UnusablePartError as error:
            raise forms.ValidationError(f"This picture cannot be used: {error}.") from None
