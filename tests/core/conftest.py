"""Lets the tests of the loops import `toy_env`, and gives them a dataset of the real simulator."""

import sys
from pathlib import Path

import pytest

from robomem.collect import collect
from robomem.config import CollectConfig
from robomem.sim.config import SimConfig

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of RememberColor3-VLA-v0, recorded at once; not to be changed."""
    root = tmp_path_factory.mktemp("collect") / "dataset"
    return collect(CollectConfig(root=str(root), episodes=2, sim=SimConfig(render="lite", workers=1)))
