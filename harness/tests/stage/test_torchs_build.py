"""What a build of torch for another platform brings along is nobody's fault; what somebody has torch do, or calls
torch's, is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import write
from masquerade.stage.blame import Places
from masquerade.stage.torchs_build import without_torchs_build

FILES = {
    "site/torch/__init__.py": "import torch.cuda\n",
    "site/torch/cuda.py": "if True:\n    from vendor.bindings import (\n        runtime,\n    )\n\nimport os\n",
    "site/torch/_ops.py": "def load_library(path): ...\n",
}
Rows = list[Any]


@pytest.fixture
def site(tmp_path: Path) -> str:
    return str(write(tmp_path, FILES) / "site")


@pytest.fixture
def kept(site: str) -> Callable[..., list[str]]:
    """What is left of events, by what they name."""
    places = Places(("/app/pkg",), (site,), (f"{site}/torch",), ("/lib/python3.11",))

    def kept(*events: dict[str, Any]) -> list[str]:
        return [event["what"] for event in without_torchs_build(events, places)]

    return kept


def importing(site: str, line: int = 2) -> Rows:
    """The stack of a package that torch imports while it is imported."""
    return [["/app/pkg/a.py", 1, "<module>", "pkg.a"], 0, [f"{site}/torch/__init__.py", 1, "<module>", "torch"], 0,
            [f"{site}/torch/cuda.py", line, "<module>", "torch.cuda"], 0]  # fmt: skip


def executed(what: str, stack: Rows, file: str = "/site/vendor/bindings/__init__.py") -> dict[str, Any]:
    return {"kind": "forbidden-import", "what": what, "module": what, "file": file, "stack": stack}


def loaded(file: str, stack: Rows) -> dict[str, Any]:
    return {"kind": "forbidden-native", "what": file.rpartition("/")[2], "file": file, "stack": stack}


@pytest.mark.parametrize("line", [2, 3, 4])
def test_a_package_that_torch_imports_itself_is_its_builds(kept, site, line) -> None:
    outer = executed("vendor.bindings", importing(site, line))
    below = [*importing(site, line), [outer["file"], 7, "<module>", "vendor.bindings"], 0]
    inner = executed("vendor.bindings", below, "/site/vendor/bindings/runtime.py")
    assert kept(outer, executed("vendor", importing(site, line), "/site/vendor/__init__.py")) == []
    assert kept(outer, inner) == []


def test_a_package_that_this_line_of_torch_does_not_import_is_not(kept, site) -> None:
    assert kept(executed("aiter", importing(site))) == ["aiter"]
    assert kept(executed("vendor.bindings", importing(site, 6))) == ["vendor.bindings"]
    assert kept(executed("vendor.bindings.other", importing(site))) == ["vendor.bindings.other"]


def test_what_code_under_a_name_of_torchs_does_is_not_torchs(kept, site) -> None:
    by_exec = [row for row in importing(site) if row != 0]
    assert kept(executed("vendor.bindings", by_exec)) == ["vendor.bindings"]
    called = [*importing(site)[:-2], [f"{site}/torch/cuda.py", 2, "lazy", "torch.cuda"], 0]
    assert kept(executed("vendor.bindings", called)) == [], "torch's own module calls it while it is imported"
    later = [["/app/pkg/a.py", 1, "<module>", "pkg.a"], [f"{site}/torch/cuda.py", 2, "lazy", "torch.cuda"], 0]
    assert kept(executed("vendor.bindings", later)) == ["vendor.bindings"]


def test_a_foreign_package_that_imports_torch_is_no_builds(kept, site) -> None:
    inner = [["/app/pkg/a.py", 1, "<module>", "pkg.a"], 0, ["<stand-in>/aiter.py", 3, "<module>", "aiter"], 0]
    aiter = executed("aiter", inner[:2], "<stand-in>/aiter.py")
    assert kept(aiter, executed("vendor.bindings", [*inner, *importing(site)[2:]])) == ["aiter"]
    assert kept(aiter, executed("flashinfer", inner, "/site/flashinfer.py")) == ["aiter", "flashinfer"]


def test_what_a_plugin_of_torchs_imports_is_the_plugins(kept, site) -> None:
    plugin = [*importing(site), ["/site/plugin/__init__.py", 1, "<module>", "plugin"], 0]
    assert kept(executed("vendor.bindings", plugin)) == ["vendor.bindings"]


def test_a_library_beside_torch_that_torch_loads_as_it_is_imported_is_its_builds(kept, site) -> None:
    preload = [*importing(site)[:3], [f"{site}/torch/__init__.py", 5, "_preload", "torch"],
               ["/lib/python3.11/ctypes/__init__.py", 370, "__init__", "ctypes"]]  # fmt: skip
    blas = f"{site}/nvidia/cublas/lib/libcublas.so.13"
    assert kept(loaded(blas, preload), loaded("libcuda.so.1", preload)) == ["libcuda.so.1"]
    assert kept(loaded("/opt/libcublas.so.13", preload)) == ["libcublas.so.13"]
    by_call = [["/app/pkg/a.py", 1, "<module>", "pkg.a"], [f"{site}/torch/_ops.py", 1, "load_library", "torch._ops"]]
    assert kept(loaded(blas, by_call)) == ["libcublas.so.13"]


def test_other_events_and_torn_ones_stay(kept, site) -> None:
    touch = {"kind": "touch", "what": "torch._C._cuda_init", "stack": importing(site)}
    torn = {"kind": "forbidden-native", "what": "libcuda.so.1"}
    assert kept(touch, torn, executed("vendor", [])) == ["torch._C._cuda_init", "libcuda.so.1", "vendor"]
