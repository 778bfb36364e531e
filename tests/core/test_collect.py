"""Recordings of the real simulator: as long as asked for, continued after a kill, never mixed."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robomem.collect import collect
from robomem.config import CollectConfig
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.errors import RobomemError
from robomem.sim.config import Demonstration, SimConfig
from robomem.sim.embodiment import MIKASA

ENV_ID = "RememberColor3-VLA-v0"


def config(root: Path, episodes: int) -> CollectConfig:
    return CollectConfig(root=str(root), episodes=episodes, sim=SimConfig(env_id=ENV_ID, render="lite", workers=1))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes, recorded at once."""
    return collect(config(tmp_path_factory.mktemp("collect") / "dataset", episodes=2))


def test_it_records_as_many_as_asked_for(recorded: Path) -> None:
    reader = EpisodeReader(recorded)
    assert (len(reader), reader.seeds, reader.embodiment) == (2, (0, 1), MIKASA)
    for episode in reader:
        assert episode.success.any()
        assert {frames.shape[1:] for frames in episode.images.values()} == {(128, 128, 3)}
        assert episode.instruction.startswith("Observe the cube's color")
        assert episode.provenance["cue"] in range(3)
        assert 0 < episode.provenance["cue_end"] < len(episode)


def test_a_killed_recording_goes_on_where_it_stopped(recorded: Path, tmp_path: Path) -> None:
    """Killed after its first episode, then finished: the same episodes as those recorded at once."""
    overrides = [f"root={tmp_path / 'dataset'}", "episodes=100", f"sim.env_id={ENV_ID}", "sim.render=lite"]
    command = [sys.executable, "-m", "robomem", "collect", *overrides, "sim.workers=1"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not list((tmp_path / "dataset" / "data").rglob("*.parquet")):
            assert child.poll() is None, "the recording ended by itself"
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    reader = EpisodeReader(collect(config(tmp_path / "dataset", episodes=2)))
    assert reader.seeds[:2] == (0, 1)
    for found, expected in zip(reader, EpisodeReader(recorded), strict=False):  # it may have been killed later
        # Contacts depend a little on what the same process has simulated before.
        np.testing.assert_allclose(found.actions, expected.actions, atol=0.01)
        for name, frames in expected.images.items():
            assert np.abs(found.images[name].astype(int) - frames).mean() < 0.5


def test_another_recording_is_refused_naming_both(recorded: Path) -> None:
    other = replace(
        config(recorded, episodes=3),
        sim=SimConfig(env_id="RememberColor5-VLA-v0", render="lite", workers=1),
        demonstration=Demonstration(noise=0.5),
    )
    with pytest.raises(RobomemError) as caught:
        collect(other)
    message = str(caught.value)
    assert f"env_id: the dataset has '{ENV_ID}', this command 'RememberColor5-VLA-v0'" in message
    assert "noise: the dataset has 0.0, this command 0.5" in message
    assert message.endswith("give another root=")
    assert EpisodeReader(recorded).seeds == (0, 1)
