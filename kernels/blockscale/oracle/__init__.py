"""Which backend serves a layer on this machine: rules as data, each refusal with its reason."""

from __future__ import annotations
