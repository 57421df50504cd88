"""Credentials, skills and receipts in the admin: secrets are never shown, receipts are verified."""

import pytest

from audit_app.models import AuditEntry
from tools_app.models import Credential, Skill, ToolExecution
from tools_app.receipts import receipts
from tools_app.secrets.credentials import use_credential
from tools_app.skills import registry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

CREDENTIALS, SKILLS = "/admin/tools_app/credential/", "/admin/tools_app/skill/"
EXECUTIONS = "/admin/tools_app/toolexecution/"
VALUE = "canary-value-of-a-secret"


def test_a_credential_is_stored_replaced_and_deleted_and_its_value_never_shown(pages, operator):
    assert pages.post(f"{CREDENTIALS}add/", {"name": "openai", "owner": "", "value": VALUE}).status_code == 302
    row = Credential.objects.get()
    assert use_credential("openai", owner_id=None, purpose="test") == VALUE
    shown = [pages.get(url).content.decode() for url in (CREDENTIALS, f"{CREDENTIALS}{row.pk}/change/")]
    assert all("openai" in html and VALUE not in html and row.value_sealed not in html for html in shown)
    assert pages.post(f"{CREDENTIALS}{row.pk}/change/", {"value": "another-value"}).status_code == 302
    assert use_credential("openai", owner_id=None, purpose="test") == "another-value"
    pages.post(f"{CREDENTIALS}{row.pk}/delete/", {"post": "yes"})
    assert not Credential.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="Credential", actor=f"user:{operator.pk}")
    assert list(actions.order_by("id").values_list("action", flat=True)) == [
        "CredentialStored",
        "CredentialStored",
        "CredentialDeleted",
    ]


@pytest.mark.parametrize("fields", [{"name": "a b"}, {"value": "short"}, {"value": ""}, {"name": ""}])
def test_a_credential_that_cannot_be_kept_is_refused_on_the_page(pages, fields):
    answer = pages.post(f"{CREDENTIALS}add/", {"name": "openai", "owner": "", "value": VALUE, **fields})
    assert answer.status_code == 200 and VALUE not in answer.content.decode()
    assert not Credential.objects.exists()


def test_staff_without_the_right_see_no_credentials(staff):
    assert staff("audit_app.view_auditentry").get(CREDENTIALS).status_code == 403


def test_a_skill_is_shown_with_what_it_requires_and_who_has_it(pages, agent):
    hostile = "<script>alert(1)</script>"
    registry.register(
        {
            "skillId": "crm",
            "name": hostile,
            "version": "1.0.0",
            "publisherId": "acme",
            "description": hostile,
            "requiredPermissions": ["crm:read"],
        }
    )
    registry.install("default", "crm", owner_id=None)
    skill = Skill.objects.get()
    pages_of_it = [pages.get(url).content.decode() for url in (SKILLS, f"{SKILLS}{skill.pk}/change/")]
    assert all("not verified" in html and hostile not in html for html in pages_of_it)
    assert "crm:read" in pages_of_it[1] and "1.0.0" in pages_of_it[1]
    pages.post(f"{SKILLS}{skill.pk}/remove/", {"_form_submitted": "True"})
    assert Skill.objects.exists()
    registry.uninstall("default", "crm")
    pages.post(f"{SKILLS}{skill.pk}/remove/", {"_form_submitted": "True"})
    assert not Skill.objects.exists()


def test_an_execution_shows_its_proof_and_a_change_of_it(pages, make_run):
    execution = ToolExecution.objects.get(run_id=make_run(calls=1).pk)
    page = f"{EXECUTIONS}{execution.pk}/change/"
    assert "none" in pages.get(page).content.decode()
    execution.receipt = receipts.sign(execution)
    execution.save(update_fields=["receipt"])
    html = pages.get(page).content.decode()
    assert "proved" in html and execution.receipt in html
    ToolExecution.objects.update(output='"other"')
    assert "changed" in pages.get(page).content.decode()
    shown = pages.get(f"{EXECUTIONS}{execution.pk}/check-receipt/", follow=True).content.decode()
    assert "does not match the stored record" in shown
