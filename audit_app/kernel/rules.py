"""Rules of stored objects: they stand on the fields and in `clean` of a model, and everything that writes a row applies
them.

JSON columns have rules here. In migrations they are a JSONField: their rules are code, and change without the column.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models

from audit_app.kernel.errors import AppError, InvalidInput

# Codes of Django's own rules, which say less than the code of a service's error.
COMMON_CODES = frozenset(
    ("", "invalid", "invalid_value", "null", "blank", "required", "invalid_choice")
    + ("min_value", "max_value", "min_length", "max_length", "null_characters_not_allowed")
)


class CheckedJSONField(models.JSONField):
    """A JSON column whose values a function checks.

    rule: returns a value as it is stored; raises ValueError, ValidationError or AppError for one that cannot be.
    None stands for the default, unless the column takes null.
    """

    empty_values = ()  # an empty list in place of an object is checked as well

    def __init__(self, *args: Any, rule: Callable[[Any], Any] | None = None, **options: Any) -> None:
        self.rule = rule
        super().__init__(*args, **options)

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.JSONField", args, options

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        default = self.get_default() if value is None and not self.null else value
        cleaned = super().clean(default, model_instance)
        return cleaned if cleaned is None else kept(self.checked, cleaned)

    def formfield(self, **options: Any) -> Any:
        return super().formfield(**{"validators": [partial(kept, self.checked)], **options})

    def checked(self, value: Any) -> Any:
        """Return the value as it is stored. Raises what `rule` raises."""
        return self.rule(value) if self.rule else value


class TextListField(CheckedJSONField):
    """A JSON list of texts, stored without duplicates.

    most: number of texts.
    longest: characters of one. rule: as of CheckedJSONField, for each text.
    """

    def __init__(self, *args: Any, most: int = 0, longest: int = 0, **options: Any) -> None:
        self.most, self.longest = most, longest
        super().__init__(*args, **options)

    def checked(self, value: Any) -> list[str]:
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise ValidationError("it must be a list of texts", code="invalid_value")
        if len(value) > self.most:
            raise ValidationError(f"it has more than {self.most} texts", code="max_length")
        if long := next((text for text in value if len(text) > self.longest), None):
            raise ValidationError(f"{long[:40]!r}… has more than {self.longest} characters", code="max_length")
        return list(dict.fromkeys(map(super().checked, value)))


def check_object(value: Any) -> Any:
    """Return a JSON object. Raises ValidationError for any other value."""
    if not isinstance(value, dict):
        raise ValidationError('Enter a JSON object, such as {"language": "en"}.', code="invalid_value")
    return value


def kept(rule: Callable[[Any], Any], value: Any) -> Any:
    """Return what the rule returns. Raises ValidationError, with the code of the rule's error, if it is broken."""
    try:
        return rule(value)
    except AppError as error:
        raise ValidationError(error.message, code=error.code) from None
    except ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValidationError(str(error) or "it is nested too deeply", code="invalid_value") from None


def check_row(row: models.Model, *, fields: Collection[str] | None = None, code: str = "") -> None:
    """Clean the fields of a row that is to be stored. Raises InvalidInput with every rule of its model that is broken.

    Relations and uniqueness are left to the database.

    fields: only these are checked, and no rule about several fields; None: all.
    code: code of the error, unless a broken rule has its own.
    """
    left_out = {
        field.name
        for field in row._meta.concrete_fields
        if field.is_relation or (fields is not None and field.name not in fields)
    }
    try:
        row.clean_fields(exclude=left_out)
        if fields is None:
            row.clean()
    except ValidationError as error:
        raise invalid_input(error, code=code) from None


def invalid_input(error: ValidationError, *, code: str = "") -> InvalidInput:
    """Return the error of a service for broken rules. code: as of `check_row`."""
    broken = [(name, one) for name, found in error.update_error_dict({}).items() for one in found]
    texts = ("".join((f"{name}: " if name != NON_FIELD_ERRORS else "", *one.messages)) for name, one in broken)
    own = next((str(one.code) for _, one in broken if (one.code or "") not in COMMON_CODES), "")
    return InvalidInput(" ".join(texts), code=own or code)
