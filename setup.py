"""Puts the folders at the top of the repository into the package komand; everything else stands in pyproject.toml."""

from setuptools import find_namespace_packages, setup

_APPS = ("komand", "sessions_app", "agents_app", "tools_app", "audit_app")
_FOLDERS = ("static", "templates")

setup(
    packages=[
        *find_namespace_packages(include=[*_APPS, *(f"{app}.*" for app in _APPS)]),
        *(f"komand.{folder}" for folder in _FOLDERS),
    ],
    package_dir={f"komand.{folder}": folder for folder in _FOLDERS},
)
