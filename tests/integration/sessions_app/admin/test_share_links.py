"""Links to chats in the admin: operators see and revoke those of others, which is audited with their name."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit_app.models import AuditEntry
from sessions_app.chat_copies import share_links
from sessions_app.models import ShareLink
from tests.support.rest import make_session, make_user

pytestmark = pytest.mark.one_database

PAGES = "/admin/sessions_app/sharelink/"


def test_an_operator_revokes_the_link_of_another(pages: Any) -> None:
    owner = make_user("sharer", is_superuser=True)
    created = share_links.create(make_session(owner, turns=2), owner, has_calls=True)
    listed = pages.get(PAGES).content.decode()
    assert "sharer" in listed and "messages, tool calls" in listed and created.token not in listed
    page = f"{PAGES}{created.row.pk}/"
    assert "Revoke" in pages.get(f"{page}change/").content.decode()
    assert share_links.find(created.token) == created.row
    assert pages.post(f"{page}revoke/", {"_form_submitted": "1"}).status_code == 302
    with pytest.raises(share_links.LinkEnded):
        share_links.find(created.token)
    entry = AuditEntry.objects.get(action="ShareLinkRevoked")
    assert entry.actor != f"user:{owner.pk}" and entry.actor.startswith("user:")
    share_links.revoke_of_others(created.row.pk)
    assert AuditEntry.objects.filter(action="ShareLinkRevoked").count() == 1
    assert str(created.row.pk) not in pages.get(PAGES, {"state": "open"}).content.decode()
    assert str(created.row.pk) in pages.get(PAGES, {"state": "revoked"}).content.decode()


def test_revoking_takes_its_right(staff: Any) -> None:
    owner = make_user("sharer", is_superuser=True)
    created = share_links.create(make_session(owner, turns=2), owner)
    page, viewer_pages = f"{PAGES}{created.row.pk}/", staff("sessions_app.view_sharelink")
    assert viewer_pages.get(f"{page}change/").status_code == 200
    assert viewer_pages.post(f"{page}revoke/", {"_form_submitted": "1"}).status_code == 403
    assert ShareLink.objects.get().revoked_at is None and User.objects.filter(username="sharer").exists()
