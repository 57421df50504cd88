"""Citations in camelCase protocols."""

from rest_framework.serializers import CharField, UUIDField

from sessions_app.surfaces.base.serializers import Count, ObjectSerializer


class CitationOut(ObjectSerializer):
    """A cited source and the place of its marker in the text."""

    id = UUIDField()
    number = Count()
    uri = CharField()
    title = CharField()
    quote = CharField()
    offset = Count(help_text="Position of the marker in the text, in code points.")
    length = Count()
    source_offset = Count(allow_null=True, help_text="Position of the quote in the source.")
