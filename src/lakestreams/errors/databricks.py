"""Databricks' errors, LS7xx: bundles and workspaces."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class BundleInvalid(LakestreamsError):
    """The bundle has a mistake that would make a deployment or a later run fail.

    `databricks bundle validate` accepts some of these mistakes. Among them are an unknown environment or task, a missing
    entry point of the wheel, an invalid cron expression, and a task that is declared twice.
    """

    code = "LS701"
    name = "BUNDLE_INVALID"
    hint = "correct databricks.yml or the file in resources/; docs/deploy.md has a bundle that works"


class WorkspaceLacks(LakestreamsError):
    """The workspace lacks something that the target's jobs need. The fix is the command that creates it."""

    code = "LS702"
    name = "WORKSPACE_LACKS"
    hint = "see docs/deploy.md for what the first deployment needs"


class WorkspaceUnreachable(LakestreamsError):
    """The workspace does not answer, or refuses the credentials."""

    code = "LS703"
    name = "WORKSPACE_UNREACHABLE"
    hint = "run databricks auth login --host <workspace>, or set DATABRICKS_HOST and DATABRICKS_TOKEN"


class ProjectExists(LakestreamsError):
    """The folder of a new bundle already has files. Nothing was written."""

    code = "LS704"
    name = "PROJECT_EXISTS"
    hint = "choose another folder, or move the files away"
