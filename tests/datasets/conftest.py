"""Fixtures of the dataset tests."""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))  # for what only these tests share


@pytest.fixture(scope="session")
def hf_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep Hugging Face's Arrow copies of the test datasets out of the user's cache."""
    import datasets.config

    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("hf_datasets")
