"""Lets the tests of the loops import `toy_env`, and gives them what was made once on the real simulator.

The fixtures import inside: what is imported here, before the tests are collected, has no run-time checks of shapes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute on one thread: another number of them may round differently."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The test computes on one thread."""
    with single_thread():
        yield


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of RememberColor3-VLA-v0, recorded at once; not to be changed."""
    from robomem.collect import collect
    from robomem.config import CollectConfig
    from robomem.sim.config import SimConfig

    root = tmp_path_factory.mktemp("collect") / "dataset"
    return collect(CollectConfig(root=str(root), episodes=2, sim=SimConfig(render="lite", workers=1)))


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """A command that evaluates an untrained policy in two episodes, and its records, which are not to be changed."""
    from untrained import untrained

    from robomem import cli
    from robomem.sim.embodiment import MIKASA

    run_dir = untrained(MIKASA, "policy=memoryless").save(tmp_path_factory.mktemp("evaluate") / "run")
    command = ["eval", f"checkpoint={run_dir}", "sim.render=lite", "sim.workers=1", "episodes=2", "videos=1"]
    with single_thread():
        assert cli.run(command) == 0
    return command, run_dir / "eval" / "RememberColor3-VLA-v0"
