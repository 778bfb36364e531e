"""Recordings of the real simulator: as long as asked for, never mixed."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from robomem.collect import collect
from robomem.config import CollectConfig
from robomem.datasets.encoding import EncodedEpisode, encode
from robomem.datasets.lerobot_reader import EpisodeReader
from robomem.errors import RobomemError
from robomem.sim import workers
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


def test_a_finished_recording_needs_no_simulator(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "WorkerProcesses", None)
    for episodes in (2, 1):
        assert collect(config(recorded, episodes)) == recorded
        assert capsys.readouterr().out == (
            f"nothing to record: {recorded} holds 2 episodes, {episodes} are asked for\n"
        )


def test_no_episode_is_recorded_in_vain(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(workers, "WorkerProcesses", partial(Failing, recorded, tried))
    assert collect(config(tmp_path / "data", episodes=2)) == tmp_path / "data"
    assert tried == [0, 1, 2]
    assert EpisodeReader(tmp_path / "data").seeds == (0, 2)


def test_seeds_that_run_out_are_an_error(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WorkerProcesses", partial(Failing, recorded, []))
    with pytest.raises(RobomemError, match=r"holds 2 of episodes=5, .* \(1 failed now\); raise max_seeds"):
        collect(replace(config(tmp_path / "data", episodes=5), max_seeds=3))
    assert EpisodeReader(tmp_path / "data").seeds == (0, 2)


class Failing:
    """In place of simulators: episode 0 recorded anew for every seed but 1, at which the oracle fails."""

    def __init__(self, recorded: Path, tried: list[int], *_: object) -> None:
        self._reader, self._tried = EpisodeReader(recorded), tried

    def call(self, *_: object) -> list[Any]:
        return [(self._reader.embodiment, self._reader.provenance)]

    def map(self, _: str, arguments: Iterable[tuple[int]]) -> Iterator[tuple[int, EncodedEpisode | None]]:
        for (seed,) in arguments:
            self._tried.append(seed)
            episode = replace(self._reader[0], seed=seed)
            yield seed, None if seed == 1 else encode(episode, self._reader.embodiment)

    def close(self) -> None:
        pass


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
