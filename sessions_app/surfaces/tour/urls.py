"""The routes of the tour. They name no object: a user has one tour."""

from django.urls import URLPattern, path

from sessions_app.surfaces.tour import views

urlpatterns: list[URLPattern] = [
    path("tour", views.tour, name="tour"),
    path("tour/start", views.start, name="tour-start"),
    path("tour/panel", views.panel, name="tour-panel"),
    path("tour/send", views.send, name="tour-send"),
    path("tour/kill", views.kill, name="tour-kill"),
    path("tour/remove", views.remove, name="tour-remove"),
]
