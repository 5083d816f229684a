"""What an oracle answered: from the record of a call to the cell of a table, with its reasons."""

from __future__ import annotations

from typing import Any

from masquerade.contracts.call import answered, exception, spoken
from masquerade.contracts.golden import cells
from masquerade.contracts.golden.table import Answer
from masquerade.stage.record import Finding, Record

#: What the answers of a routing contract are: the names of backends, or any values that JSON can hold.
BACKENDS, VALUES = "backends", "values"

#: Characters of the longest answer that a table can show.
LONGEST = 200


class NoAnswerError(ValueError):
    """The call came back with something that is no answer; the message says what is expected."""


def as_result(raised: Finding) -> dict[str, str]:
    """An exception as the result of a call: what a judged record holds in the place of the finding."""
    first = raised.message.strip().partition("\n")[0]
    return {"raised": raised.what, "message": f"{raised.what}: {first}" if first else ""}


def answer(record: Record, answers: str) -> Answer | None:
    """The answer in a record; None where the call did not come to an end by itself. Raises NoAnswerError."""
    raised = exception(record)
    result = as_result(raised) if raised else record.result
    if raised is None and not answered(record):
        return None
    if isinstance(result, dict) and result.keys() == {"raised", "message"}:
        return Answer(cells.raised(str(result["raised"])), str(result["message"]))
    found = _value(result) if answers == VALUES else _backend(result)
    if len(found.cell) > LONGEST:
        raise NoAnswerError(f"{found.cell[:40]}... has {len(found.cell)} characters; a cell holds up to {LONGEST}")
    return found


def _value(result: Any) -> Answer:
    if isinstance(result, dict) and result.keys() == {"type", "repr"}:
        raise NoAnswerError(f"{result['repr']} is a {result['type']}; an answer is a value that JSON can hold")
    return Answer(cells.value(result))


def _backend(result: Any) -> Answer:
    if isinstance(result, str):
        return Answer(cells.name(result))
    if isinstance(result, dict) and isinstance(result.get("backend"), str):
        refused = result.get("refused")
        reasons = {str(name): str(why) for name, why in refused.items()} if isinstance(refused, dict) else {}
        return Answer(cells.name(result["backend"]), str(result.get("reason", "")), reasons)
    raise NoAnswerError(
        f"{spoken(result)[:200]} names no backend; an oracle answers with a text, or with an object or dict that has "
        'backend, and may have reason and refused. For other values set answers = "values"'
    )
