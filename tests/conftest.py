"""Settings of every test: no network, and shapes checked at run time (`--jaxtyping-packages` in pyproject.toml)."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
