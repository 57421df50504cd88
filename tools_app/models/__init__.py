"""Tables of tools_app, one module per subject."""

from tools_app.models.approvals import Approval
from tools_app.models.artifacts import Artifact
from tools_app.models.control import Control
from tools_app.models.credentials import Credential
from tools_app.models.executions import IS_OPEN, UNKNOWN_ORIGINS, ToolExecution
from tools_app.models.grants import Grant
from tools_app.models.inputs import InputRequest
from tools_app.models.mcp import McpServer, McpTool
from tools_app.models.mcp_authorization import McpAuthorization, McpAuthorizationAttempt
from tools_app.models.memory import IS_TRUSTED, Memory
from tools_app.models.shared_memory import SharedValue
from tools_app.models.skills import Skill, SkillInstall, SkillVersion

__all__ = [
    "IS_OPEN",
    "IS_TRUSTED",
    "UNKNOWN_ORIGINS",
    "Approval",
    "Artifact",
    "Control",
    "Credential",
    "Grant",
    "InputRequest",
    "McpAuthorization",
    "McpAuthorizationAttempt",
    "McpServer",
    "McpTool",
    "Memory",
    "SharedValue",
    "Skill",
    "SkillInstall",
    "SkillVersion",
    "ToolExecution",
]
