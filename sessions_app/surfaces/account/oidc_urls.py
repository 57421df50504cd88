"""The routes of the login by OpenID Connect, loaded if a provider is set."""

from django.urls import URLPattern, path

from sessions_app.surfaces.account import oidc_views

urlpatterns: list[URLPattern] = [
    path("", oidc_views.begin, name="oidc-begin"),
    path("/confirm", oidc_views.begin_again, name="oidc-confirm"),
    path("/callback", oidc_views.callback, name="oidc-callback"),
    path("/logout", oidc_views.logout, name="oidc-logout"),
]
