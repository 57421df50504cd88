"""Retention rules for browser sessions and login-lockout records."""

from datetime import UTC, datetime

from axes.models import AccessAttempt, AccessLog
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

from audit_app import retention
from audit_app.retention import Expired, days_ago

LOG_DAYS = 90


def _sessions() -> "QuerySet[Session]":
    return Session.objects.filter(expire_date__lt=datetime.now(UTC)).order_by("expire_date")


def _attempts() -> "QuerySet[AccessAttempt]":
    return AccessAttempt.objects.filter(attempt_time__lt=days_ago(1)).order_by("attempt_time")


def _log() -> "QuerySet[AccessLog]":
    return AccessLog.objects.filter(attempt_time__lt=days_ago(LOG_DAYS)).order_by("attempt_time")


for rule in (
    Expired("sessions of browsers", "until they expire", _sessions),
    Expired("failed logins", "a day", _attempts),
    Expired("logins and logouts on pages", f"{LOG_DAYS} days", _log),
):
    retention.register(rule)
