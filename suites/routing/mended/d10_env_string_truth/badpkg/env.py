import os


def select():
    return "aiter" if os.environ.get("USE_AITER", "").lower() in ("1", "true") else "triton"
