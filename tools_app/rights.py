"""The rights over approvals, tools, skills, credentials and the emergency stop."""

from audit_app.rights import declare_right

VIEW_APPROVALS = declare_right("tools_app.view_approval", "see the requests for approval of others")
DECIDE_APPROVALS = declare_right("tools_app.change_approval", "decide requests for approval")
ALLOW_ALWAYS = declare_right("tools_app.add_grant", "allow tool calls in advance")
REVOKE_GRANTS = declare_right("tools_app.change_grant", "revoke what was allowed in advance")
VIEW_EXECUTIONS = declare_right("tools_app.view_toolexecution", "see the tool executions of others")
CANCEL_EXECUTIONS = declare_right("tools_app.change_toolexecution", "cancel the tool executions of others")
STOP_AGENTS = declare_right("tools_app.change_control", "use the emergency stop")
PUBLISH_SKILLS = declare_right("tools_app.change_skill", "publish skills for everyone")
MANAGE_MCP_SERVERS = declare_right("tools_app.change_mcpserver", "change MCP servers")
MANAGE_CREDENTIALS = declare_right("tools_app.change_credential", "change the credentials of others")
DELETE_MEMORIES = declare_right("tools_app.delete_memory", "delete the memories of others")
