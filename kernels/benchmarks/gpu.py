"""blockscale's kernels beside every installed peer on one GPU: times, rates, and shares of the roofline.

Run: python kernels/benchmarks/gpu.py --job k1|k2|k3 [--shape M,N,K]... [--json FILE] [--plot FILE]; a shape of k2 is
M,E,k,H,I. Each result is checked against fp32 before it is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch
from gpu_jobs import JOBS, ROOFLINES, Job, Shape
from gpu_peers import PEERS, installed
from gpu_timing import HOW, Timed, sets_needed, side_by_side


def measure(job_name: str, shape: Shape, rounds: int, gap: float) -> list[dict[str, Any]]:
    """One row per peer: times in microseconds, or why there is none."""
    job = JOBS[job_name]
    first = job.make(*shape)
    sets = [first, *(job.again(first, shape) for _ in range(sets_needed(job.bytes(first, shape)) - 1))]
    answer = job.answer(*first)
    rows, timed = [], {}
    for peer, (prepare, package) in PEERS[job_name].items():
        row: dict[str, Any] = {"job": job_name, "shape": shape, "peer": peer}
        rows.append(row)
        if not installed(package):
            row["why_not"] = f"{package} is not installed"
            continue
        try:
            candidate = Timed([prepare(*inputs) for inputs in sets])
            candidate.microseconds()
            row["error"] = error = relative_error(candidate.outputs[0], answer)
            if error < job.tolerance:
                timed[peer] = candidate
            else:
                row["why_not"] = f"wrong: relative error {error:.1e}"
        except Exception as why:  # a peer's own trouble must not end the table
            row["why_not"] = f"{type(why).__name__}: {str(why).strip().splitlines()[0][:100] if str(why) else ''}"
    times = side_by_side(timed, rounds, gap)
    for row in rows:
        if row["peer"] in times:
            row.update(_figures(times[row["peer"]], job, shape, job.bytes(first, shape)))
    return rows


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    error = torch.linalg.vector_norm(got.float() - want) / torch.linalg.vector_norm(want)
    return float(error) if error.isfinite() else float("inf")


def _figures(us: float, job: Job, shape: Shape, moved: int) -> dict[str, float]:
    operations = job.operations(shape)
    figures = {"us": us, "tflops": operations / us / 1e6, "gbps": moved / us / 1e3}
    roofline = ROOFLINES.get(torch.cuda.get_device_name())
    if roofline is not None:
        floor = max(operations / roofline[job.peak], moved / roofline["bandwidth"]) * 1e6
        figures |= {"floor_us": floor, "share": floor / us}
    return figures


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        shape = "x".join(map(str, row["shape"]))
        if "us" not in row:
            print(f"{shape:>22}  {row['peer']:22} {row['why_not']}")
            continue
        share = f"{row['share']:7.1%}" if "share" in row else "unknown"
        print(f"{shape:>22}  {row['peer']:22} {row['us']:9.1f} {row['tflops']:8.1f} {row['gbps']:7.0f} {share}")
    sys.stdout.flush()


def _plot(rows: list[dict[str, Any]], file: str) -> None:
    """A bar for each peer and shape: its share of the roofline."""
    from matplotlib import pyplot

    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    peers = list(dict.fromkeys(row["peer"] for row in rows if "share" in row))
    figure, axes = pyplot.subplots(figsize=(12, 5))
    for index, peer in enumerate(peers):
        shares = {row["shape"]: row["share"] for row in rows if row["peer"] == peer and "share" in row}
        places = [shapes.index(shape) + (index + 0.5) * 0.8 / len(peers) - 0.4 for shape in shares]
        axes.bar(places, list(shares.values()), 0.8 / len(peers), label=peer)
    axes.set_xticks(range(len(shapes)), ["x".join(map(str, shape)) for shape in shapes], rotation=30, ha="right")
    axes.set_ylabel("share of the roofline")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)


def shape_of(text: str) -> Shape:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if len(shape) not in {len(job.shapes[0]) for job in JOBS.values()}:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected M,N,K as in 16,7168,16384, or M,E,k,H,I for k2")
    return shape


def check_shapes(parser: argparse.ArgumentParser, job: str, shapes: list[Shape] | None) -> None:
    """Ends the program where a shape is another job's."""
    for shape in shapes or ():
        if len(shape) != len(JOBS[job].shapes[0]):
            parser.error(f"--shape {','.join(map(str, shape))}: {job} takes {JOBS[job].sizes}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=JOBS, required=True)
    parser.add_argument("--shape", type=shape_of, action="append", help="M,N,K or M,E,k,H,I; may be given again")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--gap", type=float, default=0.1, help="idle seconds before each round (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there")
    parser.add_argument("--plot", metavar="FILE", help="draw the shares of the roofline there; takes matplotlib")
    arguments = parser.parse_args()
    check_shapes(parser, arguments.job, arguments.shape)
    if not torch.cuda.is_available():
        print(f"gpu.py: torch {torch.__version__} sees no GPU here, and this benchmark takes one.", file=sys.stderr)
        return 2
    if arguments.plot and not installed("matplotlib"):
        print("gpu.py: --plot takes matplotlib, which is not installed: pip install matplotlib", file=sys.stderr)
        return 2
    import triton

    versions = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    print(f"{JOBS[arguments.job].name}\n{', '.join(f'{key} {value}' for key, value in versions.items())}\n{HOW}")
    print(f"{JOBS[arguments.job].sizes:>22}  {'':22} {'us':>9} {'TFLOP/s':>8} {'GB/s':>7} roofline")
    rows: list[dict[str, Any]] = []
    for shape in arguments.shape or JOBS[arguments.job].shapes:
        found = measure(arguments.job, shape, arguments.rounds, arguments.gap)
        _print(found)
        rows += found
        torch.cuda.empty_cache()
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({**versions, "timing": HOW, "rows": rows}, file, indent=1)
    if arguments.plot:
        _plot(rows, arguments.plot)
    return 0 if all("us" in row for row in rows if row["peer"] == "blockscale") else 1


if __name__ == "__main__":
    sys.exit(main())
