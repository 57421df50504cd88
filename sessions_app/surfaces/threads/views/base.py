"""Base class of this surface's views: admission, bodies, queries, threads."""

from typing import Any, TypeVar

from rest_framework import serializers

from sessions_app.access import access_session
from sessions_app.models import Session
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.threads import errors
from sessions_app.surfaces.threads.admission import admit

S = TypeVar("S", bound=serializers.Serializer[Any])


class ThreadsView(PlainView):
    """One resource of this surface."""

    admit = staticmethod(admit)

    def body(self, serializer_class: type[serializers.Serializer[Any]], *, partial: bool = False) -> dict[str, Any]:
        serializer = serializer_class(data=self.request.data, partial=partial)
        fields: dict[str, Any] = errors.checked(serializer).validated_data
        return fields

    def query(self, serializer_class: type[S]) -> S:
        given = self.request.query_params
        data: dict[str, Any] = given.dict()  # in a QueryDict, DRF takes a missing boolean for false
        for name, field in serializer_class().fields.items():
            if isinstance(field, serializers.ListField) and name in given:
                data[name] = given.getlist(name)
        return errors.checked(serializer_class(data=data))

    def thread(self, thread_id: str) -> Session:
        """Return the session of a thread. Raises NotFound."""
        return access_session(self.principal.user, thread_id)
