"""YAML that is read back as it was meant."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from masquerade.ci.emit import Said, dump

LEAVES = st.text() | st.integers(-1000, 1000) | st.booleans() | st.sampled_from(
    ["on", "no", "1.0", "0x1f", "1e3", "null", "~", "a: b", "- a", "# a", "a #b", "*a", "&a", "!a", "%a", "@a", "`a`",
     "'", '"', "a'\"b", "${{ x }}", "a\nb", " a", "a ", "", "2026-01-01", "12:30:00", ".inf", "=", "<<", "y"]
)  # fmt: skip
KEYS = st.from_regex("[a-z][a-z_-]{0,8}", fullmatch=True).filter(
    lambda key: key not in ("on", "off", "no", "yes", "y", "n")
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4))
def test_what_was_written_is_read(yaml, document) -> None:
    assert yaml.safe_load(dump(document)) == document


def test_it_reads_well(yaml) -> None:
    document = {
        "on": {"push": {"branches": ["main"]}},
        "permissions": {},
        "jobs": {"a": {"uses": Said("x/y@0123abcd", "v1.0"), "steps": [{"run": 'tox run -e "$WHAT"'}, {"run": "a b"}]}},
        "version": "3.10",
    }
    assert dump(document, ["Made by:", "  x"]) == (
        "# Made by:\n#   x\n"
        "on:\n  push:\n    branches: [main]\n"
        "permissions: {}\n"
        "jobs:\n  a:\n    uses: x/y@0123abcd # v1.0\n    steps:\n"
        "      - run: 'tox run -e \"$WHAT\"'\n      - run: a b\n"
        'version: "3.10"\n'
    )
