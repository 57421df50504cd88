"""The page "Set up" of a channel account: what to create at the platform, the test, and a first message."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from unfold.admin import ModelAdmin

from audit_app.admin_base.base import render_page, reported
from audit_app.kernel.safe_text import visible
from sessions_app.admin import account_form
from sessions_app.channels import accounts, first_message, guides, open_access
from sessions_app.channels.connections import condition
from sessions_app.channels.first_message import RoundTrip
from sessions_app.channels.inbound import pairing_codes
from sessions_app.models import ChannelAccount
from sessions_app.platforms.registry import channels
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.markdown import render

_LONGEST_WAIT = timedelta(hours=24)


def page(request: HttpRequest, model_admin: ModelAdmin, account: ChannelAccount) -> HttpResponse:
    """Return the page, or carry out one of its buttons: test, create a pairing code.

    The page polls until a message received after `since` was answered.
    """
    offered: Mapping[str, str] = {}
    if request.method == "POST":
        with reported(request):
            offered = _act(request, account)
        if not offered:
            return HttpResponseRedirect(request.get_full_path())
    since = _since(request)
    if "since" not in request.GET:
        return HttpResponseRedirect(f"{request.path}?since={since.timestamp():.0f}")
    before, after = guides.guide_of(account.channel, account.account_id, account.config, reached_at=origin_for(request))
    first = first_message.find(account, since)
    return render_page(
        request,
        model_admin,
        "admin/sessions_app/channelaccount/set_up.html",
        title=f"Set up {account}",
        account=account,
        before=render(before),
        after=render(after),
        offered=offered,
        test_page=channels.get(account.channel).test_page.replace("{account}", account.account_id),
        stored=account_form.stored_secrets(account),
        connection=condition.describe(account),
        warnings=open_access.dangers(account),
        first=first,
        needs_code=account.access == "paired" and not (first.is_over or first.state is RoundTrip.PAIRED),
    )


def _act(request: HttpRequest, account: ChannelAccount) -> Mapping[str, str]:
    """Carry out the button and show its message. Returns settings that the test offers. Raises AppError."""
    if request.POST.get("action") == "pair":
        code = pairing_codes.make_code(account)
        messages.success(request, f"Send this from the chat within {pairing_codes.MINUTES} minutes: /pair {code}")
        return {}
    checked, accepted = accounts.try_out(account), request.POST.get("accept", "")
    messages.success(request, " ".join(checked.lines))
    if accepted not in checked.offered:
        return checked.offered
    account.refresh_from_db()
    accounts.change_account(account, config={**account.config, accepted: checked.offered[accepted]})
    messages.success(request, f"{accepted} is set to {visible(checked.offered[accepted])}.")
    return {}


def _since(request: HttpRequest) -> datetime:
    """Return the time of the query, at most a day ago, by default now."""
    now, given = timezone.now(), request.GET.get("since", "")
    if not (given.isascii() and given.isdecimal() and len(given) <= 11):
        return now
    return min(max(datetime.fromtimestamp(int(given), tz=now.tzinfo), now - _LONGEST_WAIT), now)
