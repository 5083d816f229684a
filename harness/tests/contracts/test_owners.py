"""An owner of a module that is not there is a mistake in the configuration, told with its line."""

from __future__ import annotations

import pytest

from masquerade.contracts import ConfigurationError, collect

TEXT = """
    machines = ["h100"]
    [owners]
    rocm = [
        "pkg.ops",
        "pkg.opps.moe",
    ]
    any = "ghost.rocm"
    [[contracts]]
    name = "lazy"
    kind = "imports"
    modules = ["{modules}"]
    owners = {{ xpu = "pkg.kernn" }}
"""


def test_each_is_told_with_its_line(project, stage) -> None:
    with pytest.raises(ConfigurationError) as caught:
        collect(project(TEXT.format(modules="pkg")).contracts, stage.discover)
    mend = "One that is not built here takes a stand-in"
    assert [str(problem) for problem in caught.value.problems] == [
        f"masquerade.toml:6: owners.rocm[1]: there is no module pkg.opps.moe; did you mean pkg.ops.moe? {mend}",
        f"masquerade.toml:13: lazy.owners.xpu: there is no module pkg.kernn; did you mean pkg.kern? {mend}",
    ]


def test_it_is_told_together_with_other_mistakes(project, stage) -> None:
    with pytest.raises(ConfigurationError) as caught:
        collect(project(TEXT.format(modules="pkg.nothing")).contracts, stage.discover)
    assert [problem.line for problem in caught.value.problems] == [6, 12, 13]


def test_what_the_command_line_owns_is_not_the_configurations(project, stage) -> None:
    configuration = project(TEXT.format(modules="pkg").replace("opps", "ops").replace("kernn", "kern"))
    amended = configuration.amended(owners=[("rocm", ("pkg.rcm",))])
    assert collect(amended.contracts, stage.discover)
