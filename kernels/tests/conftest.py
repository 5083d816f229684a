"""`here`: make blockscale believe in a platform, an arch and installed libraries, without a fake of any driver."""

from __future__ import annotations

import pytest

from blockscale.kernels import dispatch
from blockscale.platforms import Arch, Inventory, Platform, current, libraries


@pytest.fixture
def here(monkeypatch):
    def become(platform, arch=None, installed=()):
        class Stand(Platform):
            name = platform
            device_type = "cpu"

            def _inventory(self):
                return Inventory((Arch.parse(arch),) if arch else None, "nobody knows")

        stand = Stand()
        monkeypatch.setattr(current, "resolve", lambda: stand)
        monkeypatch.setattr(libraries, "_installed", lambda module: module in installed)
        version = (3, 9, 0) if "triton" in installed else None
        monkeypatch.setattr(dispatch, "triton_version", lambda: version)

    return become
