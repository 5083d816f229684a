"""Trees and traces by themselves, beside forks of each check's own."""

from __future__ import annotations

from masquerade.stage import Check, Record, Stage, wire


def told(record: Record) -> object:
    """All that two records of one check must share."""
    findings = [(f.kind, f.what, f.phase, f.message, f.blame, f.chain, f.stack) for f in record.findings]
    return record.verdict, record.touch, findings, record.output, record.notes


def by_a_tree_alone(stage: Stage, checks: list[Check]) -> dict[str, Record]:
    """What a tree says, without a confirmation, by the ids of checks alike in all but their module."""
    return _alone(stage, checks, "tree")


def by_a_trace_alone(stage: Stage, checks: list[Check]) -> dict[str, Record]:
    """What a trace says, without a confirmation, by the ids of checks alike in all but their module; no doubts."""
    return _alone(stage, checks, "trace")


def _alone(stage: Stage, checks: list[Check], how: str) -> dict[str, Record]:
    stage.start(1)
    planned = {check.id: check for check in checks}
    server = stage.server(0)
    items = [[check.id, check.subject] for check in checks]
    wire.send(server.socket, {how: stage.request(checks[0]), "items": items})
    grown = {}
    while not (reply := wire.receive(server.socket) or {"done": True}).get("done"):
        if "events" in reply:
            grown[reply["id"]] = stage.record(planned[reply["id"]], reply, server.facts)
    return grown
