"""Files in the messages of a request, as parts with their bytes. Pure.

Chat Completions: `image_url`, `input_audio`, `file`. Responses: `input_image`, `input_audio`, `input_file`. The bytes
are in the request, as a data URL or base64, or of a stored file (see `files.with_contents`): this server fetches no
address that a request names.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from agents_app.types import LoadedPart
from sessions_app.surfaces.base.function_tools import invalid_param

_NESTED = {"image_url": "image_url", "input_audio": "input_audio", "file": "file"}
_TYPES = (*_NESTED, "input_image", "input_file")


def is_file(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TYPES


def read(content: Any, param: str) -> tuple[LoadedPart, ...]:
    """Return the files of a content, in order. Raises InvalidInput. param: name of the content, for errors."""
    return tuple(_files(content, param)) if isinstance(content, list) else ()


def _files(content: list[Any], param: str) -> Iterator[LoadedPart]:
    for index, part in enumerate(content):
        if not is_file(part):
            continue
        where, kind = f"{param}[{index}]", part["type"]
        fields = part.get(_NESTED[kind], part) if kind in _NESTED else part
        fields = {"url": fields} if isinstance(fields, str) else fields
        if not isinstance(fields, Mapping):
            raise invalid_param(f"{where}.{kind} must be an object.", where)
        if kind == "input_audio":
            type_, data, name = "audio", _decoded(fields.get("data"), where), ""
        elif kind in ("image_url", "input_image"):
            type_, data = "image", _of_url(fields.get("url") or fields.get("image_url"), where)
            name = str(fields.get("filename") or "")
        else:
            type_, data, name = "file", _of_file(fields, where), str(fields.get("filename") or "file")
        yield LoadedPart(type_, "", name, len(data), "", "", data=data)


def _of_url(url: Any, param: str) -> bytes:
    """Return the bytes of a data URL, or those of a stored file."""
    if isinstance(url, bytes):
        return url
    header, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not comma or not header.startswith("data:") or not header.endswith(";base64"):
        message = "Images and files must be data URLs (data:image/png;base64,…): this server fetches no addresses."
        raise invalid_param(message, param, "unsupported_content")
    return _decoded(data, param)


def _of_file(fields: Mapping[str, Any], param: str) -> bytes:
    data = fields.get("file_data")
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str):
        message = "Send the content of a file as file_data, or the file_id of an uploaded one."
        raise invalid_param(message, param, "unsupported_content")
    return _of_url(data, param) if data.startswith("data:") else _decoded(data, param)


def _decoded(data: Any, param: str) -> bytes:
    try:
        if not isinstance(data, str) or not data:
            raise ValueError
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_param("The data of a file must be base64.", param) from None
