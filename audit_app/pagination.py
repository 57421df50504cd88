"""Pages of big admin lists at a constant cost, without counts."""

from django.contrib.admin.views.main import PAGE_VAR
from django.http import HttpRequest
from unfold.views import ChangeList

# The database reads all rows before a page: further back, operators need a filter.
MAX_PAGES = 200


class UncountedPages:
    """The part of a paginator that the theme uses: the template with links to the neighbouring pages."""

    template_name = "admin/komand/pages.html"


class UncountedChangeList(ChangeList):
    """One page of an admin list. One more row than shown is read, to know whether another page follows."""

    newer_page = ""
    older_page = ""

    def get_results(self, request: HttpRequest) -> None:
        self.page_num = min(max(self.page_num, 1), MAX_PAGES)
        start = (self.page_num - 1) * self.list_per_page
        rows = list(self.queryset[start : start + self.list_per_page + 1])
        if self.page_num > 1:
            self.newer_page = self.get_query_string({PAGE_VAR: self.page_num - 1})
        if len(rows) > self.list_per_page and self.page_num < MAX_PAGES:
            self.older_page = self.get_query_string({PAGE_VAR: self.page_num + 1})
        self.result_list = rows[: self.list_per_page]
        # Equal numbers: the theme then neither prints a total nor offers to select rows of other pages.
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_admin_actions = bool(rows)
        self.can_show_all = self.multi_page = False
        self.paginator = UncountedPages()
