"""Recordings of the real simulator: as long as asked for, never mixed."""

from dataclasses import replace
from pathlib import Path

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


def test_it_records_as_many_as_asked_for(recorded: Path) -> None:
    reader = EpisodeReader(recorded)
    assert (len(reader), reader.seeds, reader.embodiment) == (2, (0, 1), MIKASA)
    for episode in reader:
        assert episode.success.any()
        assert {frames.shape[1:] for frames in episode.images.values()} == {(128, 128, 3)}
        assert episode.instruction.startswith("Observe the cube's color")
        assert episode.provenance["cue"] in range(3)
        assert 0 < episode.provenance["cue_end"] < len(episode)


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
