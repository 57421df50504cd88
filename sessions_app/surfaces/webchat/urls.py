"""Routes of pages, beside those of consumers.py."""

from django.urls import path

from sessions_app.surfaces.webchat import views

app_name = "webchat"

urlpatterns = [
    path("webchat/komand-chat.js", views.component, name="component"),
    path("webchat/<slug:account>/widget", views.widget, name="widget"),
    path("webchat/<slug:account>/embed.js", views.embed, name="embed"),
    path("webchat/<slug:account>/picture", views.picture, name="picture"),
    path("webchat/<slug:account>/test", views.test_page, name="test-page"),
]
