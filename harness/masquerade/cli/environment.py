"""What a Python environment holds that matters here, asked of its interpreter without importing any of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from masquerade.cli.failures import ToolError

_SECONDS = 60.0

# Runs in the other interpreter, 3.10 or newer: standard library alone. torch/version.py is read, not executed.
_QUESTIONS = """
import ast, importlib.metadata, importlib.util, json, os, platform, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
said = {"python": platform.python_version(), "executable": sys.executable, "fork": hasattr(os, "fork")}
said["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
said["triton"] = None
if importlib.util.find_spec("triton"):
    others = ("triton-rocm", "triton-xpu", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu")
    known = [(version(name), name) for name in ("triton", *others)]
    said["triton"] = next((found if name == "triton" else f"{found} ({name})" for found, name in known if found), None)
said["torch"] = None
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    said["torch"] = {"version": version("torch"), "where": os.path.dirname(spec.origin)}
    with open(os.path.join(said["torch"]["where"], "version.py"), encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if getattr(target, "id", "") in ("__version__", "cuda", "hip", "xpu"):
                    if isinstance(node.value, ast.Constant):
                        said["torch"][target.id.strip("_")] = node.value.value
print(json.dumps(said))
"""


@dataclass(frozen=True)
class TorchBuild:
    """A torch that is installed: its version, where it lies, and the version of each platform that it was built for."""

    version: str
    where: str
    cuda: str | None
    hip: str | None
    xpu: str | None

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that this build can compute on; every build has cpu."""
        built = {"cuda": self.cuda, "rocm": self.hip, "xpu": self.xpu}
        return (*(name for name, version in built.items() if version), "cpu")

    def __str__(self) -> str:
        kinds = {"CUDA": self.cuda, "ROCm": self.hip, "XPU": self.xpu}
        built = [f"{name} {version}" for name, version in kinds.items() if version]
        return f"{self.version}, {' and '.join(built) or 'CPU'} build"


@dataclass(frozen=True)
class Environment:
    """One interpreter and what is installed for it."""

    python: str
    executable: str
    system: str
    fork: bool
    torch: TorchBuild | None
    triton: str | None


def ask(python: str) -> Environment:
    """The environment of the interpreter `python`.

    Raises: ToolError when it does not answer.
    """
    try:
        done = subprocess.run(
            [python, "-c", _QUESTIONS], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
        said = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{python} does not answer: {error}") from error
    except (ValueError, IndexError) as error:
        last = next(reversed(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
        raise ToolError(f"{python} does not answer: {last}") from error
    build = said.pop("torch")
    torch = build and TorchBuild(
        build["version"], build["where"], build.get("cuda"), build.get("hip"), build.get("xpu")
    )
    return Environment(**said, torch=torch)
