"""The folder of each agent, in which the paths of its calls are resolved. Only says where it is."""

from pathlib import Path

from tools_app import conf


def folder_of(agent_id: str) -> Path:
    """The agent's folder, whether or not it is there yet. An agent's id never changes, so neither does its folder."""
    name = agent_id.replace("/", "_").replace("\0", "_").lstrip(".")  # ids are slugs; nothing else may leave the folder
    return conf.workspaces_folder() / (name or "_")
