"""Readings that change from moment to moment on a real device, and never here: those of an idle device.

They are no machine's values. Tools that poll them get something plausible, and the same at each run.
"""

from __future__ import annotations

#: Degrees Celsius.
TEMPERATURE = 30

#: Percent of the last sample period.
UTILIZATION = 0

#: Watts.
POWER_DRAW = 50

#: Bytes of device memory.
MEMORY_USED = 0
