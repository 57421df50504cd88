"""The pages of the tour."""

from sessions_app.surfaces.base.surface import Surface

SURFACE = Surface(name="tour", urlconf="sessions_app.surfaces.tour.urls")
