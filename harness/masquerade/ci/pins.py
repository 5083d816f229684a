"""Releases that pipelines name: actions by the commit of their tag, tox by its version."""

from __future__ import annotations

#: action -> (commit, tag). Source: the tags of each action's repository.
ACTIONS = {
    "actions/checkout": ("8e8c483db84b4bee98b60c0593521ed34d9990e8", "v6.0.1"),
    "actions/setup-python": ("a309ff8b426b58ec0e2a45f0f869d46889d02405", "v6.2.0"),
    "actions/upload-artifact": ("330a01c490aca151604b8cf639adc76d48f6c5d4", "v5.0.0"),
}

TOX = "4.67.15"

#: The image of GitHub's runners, by its release: `latest` changes under a project's feet.
RUNNER = "ubuntu-24.04"
