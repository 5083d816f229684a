"""What a serving engine would hold: a layer's weights in its backend's layout, and the call."""

from __future__ import annotations
