"""The rights over agents."""

from audit_app.rights import declare_right

CREATE_AGENTS = declare_right("agents_app.add_agent", "create agents")
VIEW_AGENTS = declare_right("agents_app.view_agent", "see the agents of others")
CHANGE_AGENTS = declare_right("agents_app.change_agent", "change the agents of others")
DELETE_AGENTS = declare_right("agents_app.delete_agent", "delete the agents of others")
GRANT_AUTONOMY = declare_right("agents_app.grant_autonomy", "let an agent act without approval")
OPERATE_RUNS = declare_right("agents_app.change_run", "cancel and retry the runs of others")
VIEW_COSTS = declare_right("agents_app.view_dailyusage", "see the usage and costs of others")
ADD_PROVIDERS = declare_right("agents_app.add_modelprovider", "connect models")
CHANGE_PROVIDERS = declare_right("agents_app.change_modelprovider", "change model providers")
SET_PRICES = declare_right("agents_app.change_modelprice", "set prices of models")
SET_COST_CAPS = declare_right("agents_app.change_usercostcap", "set cost caps of users")
CREATE_NETWORKS = declare_right("agents_app.add_storednetwork", "create networks of agents")
VIEW_NETWORKS = declare_right("agents_app.view_storednetwork", "see the networks of others")
CHANGE_NETWORKS = declare_right("agents_app.change_storednetwork", "change the networks of others")
DELETE_NETWORKS = declare_right("agents_app.delete_storednetwork", "delete the networks of others")
CREATE_TEMPLATES = declare_right("agents_app.add_prompttemplate", "create prompt templates")
VIEW_TEMPLATES = declare_right("agents_app.view_prompttemplate", "see prompt templates")
CHANGE_TEMPLATES = declare_right("agents_app.change_prompttemplate", "change prompt templates")
DELETE_TEMPLATES = declare_right("agents_app.delete_prompttemplate", "delete prompt templates")
