"""Opens a device at import: the positive control of every run."""

import torch

try:
    torch.cuda.current_device()
except Exception:
    pass
