"""The rights over agents."""

from audit_app.rights import declare_right

CREATE_AGENTS = declare_right("agents_app.add_agent", "create agents")
VIEW_AGENTS = declare_right("agents_app.view_agent", "see the agents of others")
CHANGE_AGENTS = declare_right("agents_app.change_agent", "change the agents of others")
DELETE_AGENTS = declare_right("agents_app.delete_agent", "delete the agents of others")
GRANT_AUTONOMY = declare_right("agents_app.grant_autonomy", "let an agent act without approval")
OPERATE_RUNS = declare_right("agents_app.change_run", "cancel and retry the runs of others")
