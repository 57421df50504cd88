"""The routes of the login and of the account pages."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from sessions_app.surfaces.account import (
    account_views,
    device_views,
    link_views,
    login_views,
    memory_views,
    push_views,
    share_views,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("login", login_views.login, name="login"),
    path("login/code", login_views.code, name="login-code"),
    path("login/enrol", login_views.enrol, name="login-enrol"),
    path("login/invitation/<str:token>", login_views.accept_invitation, name="login-invitation"),
    path("login/link/<str:token>", login_views.use_link, name="login-link"),
    path("login/confirm", login_views.confirm, name="login-confirm"),
    *([path("login/oidc", include("sessions_app.surfaces.account.oidc_urls"))] if settings.KOMAND_OIDC_ISSUER else []),
    path("logout", login_views.logout, name="logout"),
    path("account", account_views.account, name="account"),
    path("account/second-factor", account_views.add_second_factor, name="account-second-factor"),
    path("account/second-factor/remove", account_views.remove_second_factor, name="account-second-factor-remove"),
    path("account/logins/<uuid:login_id>/sign-out", account_views.sign_out, name="account-sign-out"),
    path("account/sign-out-elsewhere", account_views.sign_out_elsewhere, name="account-sign-out-elsewhere"),
    path("account/memories", memory_views.list_memories, name="account-memories"),
    path("account/memories/delete-all", memory_views.delete_all, name="account-memories-delete"),
    path("account/memories/<uuid:memory_id>/change", memory_views.change, name="account-memory-change"),
    path("account/memories/<uuid:memory_id>/pin", memory_views.pin, name="account-memory-pin"),
    path("account/memories/<uuid:memory_id>/approve", memory_views.approve, name="account-memory-approve"),
    path("account/memories/<uuid:memory_id>/delete", memory_views.delete, name="account-memory-delete"),
    path("account/links", link_views.list_links, name="account-links"),
    path("account/links/code", link_views.make_code, name="account-link-code"),
    path("account/links/confirm", link_views.confirm, name="account-link-confirm"),
    path("account/links/<uuid:link_id>/unlink", link_views.unlink, name="account-unlink"),
    path("account/shared", share_views.list_shares, name="account-shared"),
    path("account/shared/<uuid:share_id>/revoke", share_views.revoke, name="account-revoke-share"),
    path("account/devices", device_views.list_devices, name="account-devices"),
    path("account/devices/code", device_views.make_code, name="account-device-code"),
    path("account/devices/<uuid:key_id>/remove", device_views.remove, name="account-device-remove"),
    path("account/notifications", push_views.list_browsers, name="account-notifications"),
    path("account/notifications/add", push_views.add, name="account-notifications-add"),
    path("account/notifications/<uuid:browser_id>/change", push_views.change, name="account-notifications-change"),
    path("account/notifications/<uuid:browser_id>/test", push_views.send_test, name="account-notifications-test"),
    path("account/notifications/<uuid:browser_id>/remove", push_views.remove, name="account-notifications-remove"),
    path("account/recovery-codes", account_views.renew_recovery_codes, name="account-recovery-codes"),
]
