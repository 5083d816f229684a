"""Records what this machine answers to the probes of `probes.txt`, as one JSON file without personal data.

    python suites/fidelity/record.py -o fixtures/recordings/<machine>-torch<version>.json

Needs Python 3.10 or newer and torch; pynvml, amdsmi and triton are asked where they are installed. docs/fidelity.md
says what is in the file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from recorder import plain, probes, processes, steps

#: Variables that would change answers: a recording is of the machine, not of somebody's shell.
FOREIGN = (
    "CUDA_",
    "HIP_",
    "ROCR_",
    "ZE_",
    "ONEAPI_",
    "PYTORCH_",
    "TORCH_",
    "TRITON_",
    "NVIDIA_",
    "GPU_DEVICE_",
    "HSA_",
)
#: Of those, what says where software lies.
PLACES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "HIP_PATH", "ONEAPI_ROOT")

TRITONS = ("triton", "triton-rocm", "triton-xpu", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu")
PACKAGES = ("torch", *TRITONS, "nvidia-ml-py", "amdsmi")


def main() -> int:
    options = _options()
    started = time.monotonic()
    chosen = [probe for probe in probes.load() if not options.only or probe.id in options.only]
    cache = _clean_environment()
    try:
        document = _record(chosen, options.jobs, options.limit, options.total)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    _write(options.output, document)
    rows = document["probes"].values()
    asked = [row for row in rows if "not applicable" not in row]
    unfinished = [id for id, row in document["probes"].items() if "unfinished" in row]
    seconds = time.monotonic() - started
    print(f"{len(asked)} probes on {document['platform']} in {seconds:.0f} s, {len(rows) - len(asked)} not applicable")
    for id in unfinished:
        print(f"unfinished: {id}: {document['probes'][id]['unfinished']}")
    return 1 if unfinished or not asked else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Record what this machine answers to the probes of probes.txt.")
    parser.add_argument("-o", "--output", required=True, help="the JSON file to write")
    parser.add_argument("--only", action="append", metavar="LINE", help="this probe alone; may be given more than once")
    parser.add_argument("-j", "--jobs", type=int, default=min(os.cpu_count() or 1, 16), help="probes at a time")
    parser.add_argument("--limit", type=float, default=20, help="seconds that one probe may take")
    parser.add_argument("--total", type=float, default=240, help="seconds after which no probe is begun any more")
    return parser.parse_args()


def _clean_environment() -> str:
    """Unset what would change answers. Gives a folder for what Triton builds."""
    for name in list(os.environ):
        if name.startswith(FOREIGN) and name not in PLACES:
            del os.environ[name]
    # A thread of a library's own, once started, would be missing in every fork.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    os.environ["TRITON_CACHE_DIR"] = cache = tempfile.mkdtemp(prefix="recorder-")
    return cache


def _record(chosen: list[probes.Probe], at_once: int, limit: float, total: float) -> dict[str, Any]:
    """The whole recording. torch is imported here and asked for nothing: only the children touch a device."""
    import torch

    kind = _platform(torch)
    uuid = _uuid(kind)
    rows: dict[str, Any] = {}
    jobs = []
    for probe in chosen:
        env = probe.environment(uuid) if kind in probe.platforms else None
        if env is None:
            why = f"for {' and '.join(probe.platforms)}" if kind not in probe.platforms else "the card has no uuid"
            rows[probe.id] = {"group": probe.group, "not applicable": why}
        else:
            rows[probe.id] = {"group": probe.group}
            jobs.append(processes.Job(probe, env))
    # What takes longest goes first.
    jobs.sort(key=lambda job: not job.probe.fresh)
    for job, result in processes.run_all(jobs, at_once, limit, total):
        rows[job.probe.id].update(result)
    return {"schema": 1, "platform": kind, **_facts(kind, torch), "probes": rows}


def _platform(torch: Any) -> str:
    """The platform that torch was built for."""
    if torch.version.hip:
        return "rocm"
    if torch.version.cuda:
        return "cuda"
    return "xpu" if torch.xpu._is_compiled() else "cpu"


def _uuid(kind: str) -> str | None:
    """The first card's uuid, as the management library's tool tells it: it stays in this process and its children."""
    said = _tool("nvidia-smi --query-gpu=uuid --format=csv,noheader") if kind == "cuda" else ""
    return said if said.startswith("GPU-") else None


def _tool(command: str) -> str:
    """The first line that a tool writes; nothing where it is not there or fails."""
    try:
        status, said = steps.run(command)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.partition("\n")[0].strip() if status == 0 else ""


def _facts(kind: str, torch: Any) -> dict[str, Any]:
    """What the machine and its software are."""
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for name in PACKAGES[1:]:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    devices = _tool("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader") if kind == "cuda" else ""
    return {
        "versions": versions,
        "system": plain.text(f"{platform.system()} {platform.machine()}"),
        "device and driver": plain.text(devices) or None,
    }


def _write(file: str, document: dict[str, Any]) -> None:
    """JSON with a line for each probe, so that two recordings can be compared line by line."""
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    head = json.dumps({key: value for key, value in document.items() if key != "probes"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(id)}: {json.dumps(row)}" for id, row in document["probes"].items())
    with open(file, "w", encoding="utf-8") as out:
        out.write(f'{head[:-2]},\n "probes": {{\n{rows}\n }}\n}}\n')


if __name__ == "__main__":
    sys.exit(main())
