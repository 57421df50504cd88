"""Web push: browsers are notified of approvals, questions and answers that wait, also while no page is open.

`notices` finds what waits, in the sweep of each second; `notifier` sends it to the push service of the browser.
"""
