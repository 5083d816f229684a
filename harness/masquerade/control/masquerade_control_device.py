"""Opens a device at import: the positive control of every run."""

import contextlib

import torch

with contextlib.suppress(Exception):
    torch.cuda.current_device()
