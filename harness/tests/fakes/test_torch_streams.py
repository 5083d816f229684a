"""Streams and events of a faked device: torch's own classes, over answers of an idle device."""

from __future__ import annotations

import pytest

SOURCE = """\
import torch

def answer(kind):
    device = getattr(torch, kind)
    stream, other, event = device.Stream(), device.Stream(), device.Event(enable_timing=True)
    out = {
        "is": [isinstance(stream, device.Stream), type(stream).__name__, type(event).__name__],
        "equal": [stream == stream, stream == other, stream != other, hash(stream) == hash(stream), stream == 3],
        "device": [str(stream.device), str(stream.device_type), stream.device_index],
        "query": [stream.query(), event.query()],
        "nothing": [stream.synchronize(), event.record(), event.wait(), event.synchronize(), stream.wait_event(event),
                    stream.wait_stream(other)],
        "event": isinstance(stream.record_event(), device.Event),
        "current": str(device.current_stream().device),
        "default is current": device.current_stream() == device.current_stream(),
        "repr": f"torch.{kind}.Stream" in repr(stream),
    }
    with device.stream(stream):
        out["inside"] = device.current_stream() == device.current_stream()
        out["made inside"] = str(torch.ones(1, device=kind).device)
    tensor = torch.ones(1, device=kind)
    out["record_stream"] = tensor.record_stream(stream)
    try: event.elapsed_time(event)
    except RuntimeError as error: out["elapsed"] = str(error)
    return out
"""


@pytest.mark.parametrize(("machine", "kind"), [("h200", "cuda"), ("mi355x", "cuda"), ("b580", "xpu")])
def test_streams_and_events(ask, machine: str, kind: str) -> None:
    told = ask(SOURCE, on=machine, args=[kind])
    assert told["is"] == [True, "Stream", "Event"]
    assert told["equal"] == [True, False, True, True, False]
    assert told["device"][0] == told["current"] == told["made inside"] == f"{kind}:0"
    assert told["query"] == [True, True] and told["nothing"] == [None] * 6 and told["record_stream"] is None
    assert told["event"] and told["default is current"] and told["inside"] and told["repr"]
    assert told["elapsed"].startswith(f"torch.{kind}.Event.elapsed_time was called on machine {machine}: nothing ran")


def test_a_stream_of_another_device_of_the_host(ask) -> None:
    source = """\
    import torch
    def answer():
        stream = torch.cuda.Stream(device=3)
        with torch.cuda.stream(stream): inside = torch.cuda.current_device()
        return [str(stream.device), inside, torch.cuda.current_device(), str(torch.cuda.default_stream(5).device)]
    """
    assert ask(source, on="h200x8") == ["cuda:3", 3, 0, "cuda:5"]


def test_a_cpu_machine_has_no_streams(ask) -> None:
    source = """\
    import torch
    def answer():
        out = []
        for call in (torch.cuda.Stream, torch.xpu.Stream, torch.cuda.current_stream):
            try: call()
            except Exception as error: out.append(type(error).__name__)
        return out
    """
    assert len(ask(source, on="spr")) == 3


def test_graphs_and_other_things_without_an_answer_say_so(ask) -> None:
    source = """\
    import torch
    def answer():
        out = []
        for call in (torch.cuda.CUDAGraph, torch.cuda.ipc_collect, torch.cuda.utilization, torch.cuda.nvtx.mark):
            try: out.append([type(call()).__name__])
            except Exception as error: out.append(f"{type(error).__name__}: {error}"[:80])
        return out
    """
    told = ask(source, on="h200")
    assert told[1] == ["NoneType"] and told[2] == ["int"]
