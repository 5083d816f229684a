"""nvidia-smi: the table, -L, -q, --query-gpu, topo -m and --version, in the formats of driver branch 550 and later.

What a machine's file does not hold is N/A, as the tool writes what NVML does not give. Source of formats and exit
statuses: the nvidia-smi manual, and outputs of drivers 550 to 580 in public bug reports.
"""

from __future__ import annotations

import time

from .. import steady
from ..nvml import DRIVER_NOT_LOADED, ERRORS, LIBRARY_NOT_FOUND, start_code
from ..world import Device, World
from . import nvidia_query
from .nvidia_query import MIB, bus_id, known

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
    "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
)
INVALID = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What `nvidia-smi arguments` writes, and its exit status."""
    failed = _failure(world)
    if failed:
        return failed
    options, words = _parse(arguments)
    if "version" in options:
        return _version(world), 0
    cards = _chosen(world.cards("cuda"), options.get("id"))
    if cards is None:
        return "No devices were found\n", 6
    if not cards:
        return "No devices were found\n", 0 if not options else 6
    if words[:1] == ["topo"]:
        return (_topology(world), 0) if "matrix" in options else (INVALID, 2)
    if words:
        return INVALID, 2
    if "list-gpus" in options:
        lines = [f"GPU {i}: {known(card, 'name')} (UUID: {known(card, 'uuid')})\n" for i, card in cards]
        return "".join(lines), 0
    if "query-gpu" in options:
        return nvidia_query.csv(world, cards, options["query-gpu"], options.get("format", ""))
    if "query" in options:
        return nvidia_query.log(world, cards), 0
    return _table(world, cards), 0


def _failure(world: World) -> tuple[str, int] | None:
    """How the tool ends where NVML does not start."""
    code = start_code(world)
    if code in (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND):
        return (NO_DRIVER if code == DRIVER_NOT_LOADED else NO_LIBRARY), code
    return (f"Failed to initialize NVML: {ERRORS[code]}\n", min(code, 255)) if code else None


_SHORT = {"i": "id", "L": "list-gpus", "q": "query", "m": "matrix"}
_WITH_VALUE = frozenset({"id", "query-gpu", "format", "display"})


def _parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the other words."""
    options: dict[str, str] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        option, equals, value = word.lstrip("-").partition("=")
        option = _SHORT.get(option, option)
        if option in _WITH_VALUE and not equals and rest:
            value = rest.pop(0)
        options[option] = value
    return options, words


def _chosen(cards: list[Device], wanted: str | None) -> list[tuple[int, Device]] | None:
    """The cards that -i names, with their indices; all without it, None where one is not there."""
    numbered = list(enumerate(cards))
    if wanted is None:
        return numbered
    chosen: list[tuple[int, Device]] = []
    for word in wanted.split(","):
        names = {"index": word.strip(), "uuid": word.strip(), "bus": word.strip().lower()}
        found = [
            (index, card)
            for index, card in numbered
            if names["index"] in (str(index), str(card.known("serial")))
            or names["uuid"] == card.known("uuid")
            or (":" in names["bus"] and bus_id(card).lower().endswith(names["bus"]))
        ]
        if not found:
            return None
        chosen += [item for item in found if item not in chosen]
    return chosen


def _version(world: World) -> str:
    driver, cuda = (str(world.known(f"driver.{key}", "N/A")) for key in ("version", "runtime"))
    rows = {
        "NVIDIA-SMI version": driver,
        "NVML version": ".".join(driver.split(".")[:2]),
        "DRIVER version": driver,
        "CUDA Version": cuda,
    }
    return "".join(f"{name:<20}: {value}\n" for name, value in rows.items())


def _table(world: World, cards: list[tuple[int, Device]]) -> str:
    driver, cuda = (str(world.known(f"driver.{key}", "N/A")) for key in ("version", "runtime"))
    edge = "+" + "-" * 89 + "+\n"
    rule = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+\n"
    rows = [
        time.strftime("%a %b %e %H:%M:%S %Y") + "       \n",
        edge,
        f"| NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {cuda:<9}|\n",
        rule,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n",
        "|                                         |                        |               MIG M. |\n",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|\n",
    ]
    for index, card in cards:
        rows += _rows(index, card)
        rows.append(rule)
    return "".join(rows) + " " * 91 + "\n" + edge + _NO_PROCESSES + edge


_NO_PROCESSES = (
    f"| {'Processes:':<88}|\n"
    f"| {' GPU   GI   CI              PID   Type   Process name                        GPU Memory':<88}|\n"
    f"| {'       ID   ID                                                               Usage':<88}|\n"
    f"|{'=' * 89}|\n"
    f"| {' No running processes found':<88}|\n"
)


def _rows(index: int, card: Device) -> list[str]:
    name = str(known(card, "name"))
    name = name if len(name) <= 27 else name[:24] + "..."
    limit, total = card.known("power_limit"), card.known("total_memory")
    cap = f"{limit}W" if limit else "N/A"
    memory = f"{total // MIB}MiB" if total else "N/A"
    power = f"{steady.POWER_DRAW}W"
    capability = card.known("capability")
    mig = "Disabled" if capability and tuple(capability) >= (8, 0) and not card.known("is_integrated") else "N/A"
    return [
        f"| {index:>3}  {name:<31}{'Off':<3} |   {bus_id(card):<16} Off | {'N/A':>20} |\n",
        f"| N/A  {steady.TEMPERATURE:>3}C    P0 {power:>15} / {cap:>5} |"
        f"{steady.MEMORY_USED // MIB:>8}MiB / {memory:>9} |{steady.UTILIZATION:>7}%{'Default':>13} |\n",
        f"|{'':41}|{'':24}| {mig:>20} |\n",
    ]


def _topology(world: World) -> str:
    """How the cards are joined. Raises UnknownValueError for more than one of which nothing is known."""
    count = len(world.cards("cuda"))
    link = world.get("interconnect", "nvidia-smi topo -m") if count > 1 else ""
    head = (
        "\t"
        + "\x1b[4m"
        + "".join(f"GPU{n}\t" for n in range(count))
        + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    )
    rows = [
        f"GPU{row}\t" + "".join(" X \t" if row == column else f"{link}\t" for column in range(count)) + "\tN/A\t\tN/A\n"
        for row in range(count)
    ]
    return head + "".join(rows) + _LEGEND
