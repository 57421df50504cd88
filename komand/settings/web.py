"""Settings of the web process and of management commands: pages, admin, REST, login."""

import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from csp.constants import NONE, SELF

from komand.settings import env
from komand.settings.admin import UNFOLD as UNFOLD
from komand.settings.base import *  # noqa: F403
from komand.settings.base import (
    ALLOWED_HOSTS,
    BASE_DIR,
    DATABASES,
    INSTALLED_APPS,
    KOMAND_MAX_BODY_BYTES,
    KOMAND_OIDC_CLIENT_ID,
    KOMAND_OIDC_ISSUER,
    KOMAND_PUBLIC_URL,
    KOMAND_REDIS_PREFIX,
    KOMAND_REDIS_URL,
    KOMAND_TRUSTED_PROXIES,
    STORAGES,
)


def _files(folder: str) -> Path:
    """Return `static` or `templates`: a folder of the package in a wheel, at the top of a checkout."""
    packaged = BASE_DIR / "komand" / folder
    return packaged if packaged.is_dir() else BASE_DIR / folder


INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "django_htmx",
    "axes",
    *INSTALLED_APPS,
]
MIDDLEWARE = [
    "komand.middleware.RequestContext",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "komand.middleware.PagePolicy",
    "komand.static_files.StaticFiles",
    "komand.static_files.CompressedPages",
    "komand.middleware.CrossOrigin",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "komand.middleware.HostGuard",
    "django.middleware.csrf.CsrfViewMiddleware",
    "komand.middleware.Login",
    "komand.middleware.Actor",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "komand.middleware.FreshLogin",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_files("templates")],  # before those of the apps
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "komand.urls"
ASGI_APPLICATION = "komand.asgi.application"
APPEND_SLASH = False

# Under ASGI each request has a thread of its own: a kept connection would be lost with it.
DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"].pop("CONN_HEALTH_CHECKS", None)
if DATABASES["default"]["ENGINE"] == "audit_app.kernel.sqlite":
    # The admin theme and Django REST Framework import these fields if they can, and with them psycopg, 9 MB.
    sys.modules.setdefault("django.contrib.postgres.fields", cast(Any, None))
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    from audit_app.kernel.postgresql.watched_connection import WatchedConnection

    # reconnect_timeout: a failed attempt is repeated once, then by the next request, not after longer and longer pauses
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "connection_class": WatchedConnection,
        "min_size": 1,
        "max_size": 20,
        "timeout": 1,
        "reconnect_timeout": 0,
    }

# Not under the name `default`: every consumer would subscribe to that one as it connects, which costs a round trip and
# lets nobody in while Valkey is away.
CHANNEL_LAYERS = {
    "lists": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # socket_timeout: waiting for a message is not an error
        "CONFIG": {
            "hosts": [{"address": KOMAND_REDIS_URL, "socket_timeout": None}],
            "prefix": f"{KOMAND_REDIS_PREFIX}layer",
        },
    }
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [_files("static")]
STORAGES = {
    **STORAGES,
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "komand.static_files.ReleaseStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

_public = urlsplit(KOMAND_PUBLIC_URL)
_is_https = _public.scheme == "https"
if _public.hostname:
    ALLOWED_HOSTS = [*ALLOWED_HOSTS, _public.hostname]
    CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
if KOMAND_TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# `__Host-`: a browser accepts the cookie from this host over TLS only, so that no sibling domain can plant one.
_cookie_prefix = "__Host-" if _is_https else ""
SESSION_COOKIE_NAME = f"{_cookie_prefix}komand_session"
SESSION_COOKIE_SECURE = _is_https
SESSION_ENGINE = "sessions_app.identity.browser_sessions"
CSRF_COOKIE_NAME = f"{_cookie_prefix}komand_csrf"
CSRF_COOKIE_SECURE = _is_https
SECURE_HSTS_SECONDS = env.integer("KOMAND_HSTS_SECONDS", 0)
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
# Of browsers, no page uses any of these, and neither may a script in it. Copying (clipboard-write) stays allowed.
KOMAND_PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "bluetooth",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "hid",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "serial",
        "usb",
    )
)
# The admin's theme builds expressions and styles in the page; only the pages of operators allow it.
KOMAND_ADMIN_PREFIX = "/admin/"
KOMAND_ADMIN_CSP = {"script-src": [SELF, "'unsafe-eval'"], "style-src": [SELF, "'unsafe-inline'"]}

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
if KOMAND_OIDC_ISSUER:
    _issuer = urlsplit(KOMAND_OIDC_ISSUER)
    if _issuer.scheme != "https" and _issuer.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise env.BadSetting("KOMAND_OIDC_ISSUER", f"must begin with https://, not {KOMAND_OIDC_ISSUER!r}")
    if not KOMAND_OIDC_CLIENT_ID:
        raise env.BadSetting("KOMAND_OIDC_CLIENT_ID", "must be set if KOMAND_OIDC_ISSUER is")
    if find_spec("authlib") is None:
        raise env.BadSetting(
            "KOMAND_OIDC_ISSUER", f"needs more packages; run: {sys.executable} -m pip install authlib requests"
        )
    # A browser checks where the answer to a form, here the logout, redirects to.
    CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"].append(f"{_issuer.scheme}://{_issuer.netloc}")
# Ten wrong passwords from one address lock it for five minutes. Not by user name: anyone could lock out anyone.
# Failures with one name, and from one network, are delayed by `sessions_app.identity.login_throttle`.
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_CLIENT_IP_CALLABLE = "sessions_app.identity.client_ip.counted_of_request"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_ALLOWED_CORS_ORIGINS = ""
AXES_ENABLE_ADMIN = False

# Closed and JSON unless a view says otherwise.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}

DATA_UPLOAD_MAX_MEMORY_SIZE = KOMAND_MAX_BODY_BYTES
