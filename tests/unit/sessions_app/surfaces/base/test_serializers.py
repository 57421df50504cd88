"""Serializers of JSON objects: names on the wire, values, and the schemas that are made of the same fields."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rest_framework.serializers import CharField, Field, IntegerField, ListField

from sessions_app.surfaces.base.openapi.fields import body_schema, component_name, object_schema, schema_of
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    TimeSpan,
    Timestamp,
)
from sessions_app.surfaces.rest.objects.agents import AgentBody, AgentOut

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class UnknownField(Field):
    """A field without a schema."""


class PartOut(ObjectSerializer):
    part_id = CharField(source="pk")


class ThingBody(CamelCaseSerializer):
    display_name = CharField(max_length=5)
    from_ = IntegerField(source="since", default=None, allow_null=True)


class ThingOut(ThingBody, ObjectSerializer):
    optional = ("extra_text",)

    owner_name = CharField(source="owner.name")
    error = NullableText()
    risk = NullableChoice(choices=["low"])
    took = TimeSpan(allow_null=True)
    created_at = Timestamp(allow_null=True)
    parts = ListField(child=PartOut())
    extra_text = CharField()


def make_thing(**changes):
    values = {"display_name": "a", "since": 1, "error": "", "risk": "", "took": 1.5, "created_at": NOON, "parts": []}
    return SimpleNamespace(**{**values, "owner": SimpleNamespace(name="alice"), **changes})


def test_a_body_is_named_in_camel_case_and_validated_in_snake_case():
    body = ThingBody(data={"displayName": "abc", "from": 3})
    assert body.is_valid() and body.validated_data == {"display_name": "abc", "since": 3}
    wrong = ThingBody(data={"displayName": "too long"})
    assert not wrong.is_valid() and list(wrong.errors) == ["displayName"]


def test_an_object_has_its_fields_in_order_with_nested_objects_and_nulls():
    shown = ThingOut.of(make_thing(parts=[SimpleNamespace(pk=7)]))
    assert list(shown.items()) == [
        ("displayName", "a"),
        ("from", 1),
        ("ownerName", "alice"),
        ("error", None),
        ("risk", None),
        ("took", "00:00:01.500"),
        ("createdAt", "2026-03-01T12:00:00.000Z"),
        ("parts", [{"partId": "7"}]),
    ]


def test_given_values_replace_attributes_and_optional_fields_need_them():
    shown = ThingOut.of(make_thing(created_at=None), error="no", extra_text="x")
    assert (shown["error"], shown["extraText"], shown["createdAt"]) == ("no", "x", None)


def test_an_attribute_that_is_missing_is_an_error():
    with pytest.raises(AttributeError):
        ThingOut.of(SimpleNamespace(display_name="a"))


def test_schemas_of_bodies_have_limits_and_schemas_of_objects_are_closed():
    body, answer = body_schema(ThingBody), object_schema(ThingOut)
    assert body["required"] == ["displayName"]
    assert body["properties"]["displayName"] == {"type": "string", "minLength": 1, "maxLength": 5}
    assert answer["properties"]["displayName"] == {"type": "string"}
    assert answer["properties"]["parts"]["items"] == ref(component_name(PartOut)) == ref("Part")
    assert answer["additionalProperties"] is False and "extraText" not in answer["required"]


def test_a_field_class_without_a_schema_is_an_error():
    with pytest.raises(TypeError, match="Unknown"):
        schema_of(UnknownField())


def test_an_agent_returns_every_field_that_can_be_set():
    assert set(AgentBody().fields) <= set(AgentOut().fields)
