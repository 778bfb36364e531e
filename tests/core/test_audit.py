"""An audit tells a policy that relies on its memory from one that cannot."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from foreign import MIKASA
from foreign import record as record_foreign
from tiny import EMBODIMENT as TINY
from tiny import tiny_episode
from toy_env import CueEnvironment, ToyPolicy, cue_of, cue_ticks, record, record_dataset
from untrained import untrained

from robomem.audit import Auditor, Settings
from robomem.auditing.action_change import action_changes
from robomem.auditing.interventions import INTERVENTIONS, make_intervention, record_donors
from robomem.auditing.probe import decode, sightings
from robomem.auditing.recorded import Recorded
from robomem.auditing.replay import replay
from robomem.auditing.tables import tables
from robomem.auditing.trace import trace
from robomem.auditing.verdict import compare, judge
from robomem.contract import Policy
from robomem.errors import RobomemError
from robomem.groups import options
from robomem.records import EpisodeLog
from robomem.rollout import EpisodeResult

SEEDS = range(100, 120)
SETTINGS = Settings(replan_every=3, noise_seed=0, donors=8)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("recorded"), episodes=40)


def run_audit(policy: Policy, dataset: Path, folder: Path, rows: int = 2) -> dict[str, Any]:
    with EpisodeLog(folder, {"env_id": "Cue", "policy": "toy"}) as log:
        auditor = Auditor(policy, Recorded(str(dataset), 40, "Cue"), log, SETTINGS)
        if rows:
            auditor.intervene(CueEnvironment(rows), SEEDS)
        return auditor.conclude(SEEDS)


@pytest.fixture(scope="module")
def remembering(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the audit of a policy that relies on its memory."""
    folder = tmp_path_factory.mktemp("remembering")
    run_audit(ToyPolicy(), dataset, folder)
    return folder


@pytest.fixture(scope="module")
def blank(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The audit of a policy without memory."""
    return run_audit(ToyPolicy(remembers=False), dataset, tmp_path_factory.mktemp("blank"))


def read_audit(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "audit.json").read_text())


def test_a_policy_that_relies_on_its_memory(remembering: Path) -> None:
    result = read_audit(remembering)
    success = {name: row["success_once"]["rate"] for name, row in result["interventions"].items()}
    assert success["none"] == success["freeze"] == 1
    assert success["zero"] == 0
    assert 0.2 < success["swap"] < 0.8
    change = {name: row["action_change"] for name, row in result["interventions"].items()}
    assert change["none"] == change["freeze"] == 0
    assert change["zero"] > 0.5
    assert change["swap"] > 0.3
    assert change["shuffle"] > 0.3
    assert result["verdict"] == "uses memory"
    assert any("zero: success 20/20 -> 0/20" in reason for reason in result["reasons"])
    assert result["gradients"]["memory.gain"] > 0
    assert result["dead_parameters"] == ["memory.unused"]
    assert len(list(tables(result))) == 3


def test_a_policy_that_cannot_remember(blank: dict[str, Any]) -> None:
    outcomes = [(row["success_once"], row["action_change"]) for row in blank["interventions"].values()]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert outcomes[0][1] == 0
    assert 0 < outcomes[0][0]["rate"] < 1
    assert blank["verdict"] == "does not use memory"


def test_retention_against_what_the_image_shows(remembering: Path, blank: dict[str, Any]) -> None:
    kept, lost = read_audit(remembering)["retention"], blank["retention"]
    ticks = [point["ticks_after_cue"] for point in kept]
    assert ticks[:5] == [0, 1, 2, 3, 4]
    assert len(ticks) >= 12
    assert all(point["accuracy"] == 1 and point["low"] > point["chance"] for point in kept)
    # The demonstrator sets off at tick 3, that is one or two ticks after the cue; before that nothing shows it.
    assert lost[0]["low"] < lost[0]["chance"] < 0.7
    assert kept[0]["from_observation"] < 0.7
    assert lost[0]["episodes"] == 40
    assert lost[8]["accuracy"] == 1


def test_the_trace_shows_one_episode(remembering: Path) -> None:
    trace = read_audit(remembering)["trace"]
    ticks = len(record(0).actions)
    assert (trace["seed"], trace["ticks"]) == (0, list(range(ticks)))
    assert trace["gate"][-1] == pytest.approx(2 * cue_of(0) - 1)
    assert trace["age"][0] == [0, None]
    assert sorted(p.name for p in (remembering / "trace").iterdir()) == [f"frame-{t:03d}.png" for t in range(ticks)]


@pytest.mark.parametrize(("memory", "entries"), [("bank", 4), ("window", 8)])
def test_the_trace_tells_empty_entries_from_new_ones(memory: str, entries: int, tmp_path: Path) -> None:
    episode = tiny_episode(4)
    found = trace(untrained(TINY, f"memory={memory}", "policy.horizon=3").policy, episode, tmp_path)
    assert found is not None
    there = [[age is not None for age in ages] for ages in found["age"]]
    assert list(map(sum, there)) == [min(tick + 1, entries) for tick in range(len(episode))]
    for shares, filled in zip(found["attention"], there, strict=True):
        assert all(share == 0 for share, is_there in zip(shares, filled, strict=True) if not is_there)


@pytest.mark.parametrize("memory", options("memory"))
def test_every_memory_can_be_measured(memory: str) -> None:
    """States of all shapes and types: counters and flags without a channel, integers, booleans."""
    policy = cast(Policy, untrained(TINY, f"memory={memory}", "policy.horizon=3").policy)
    episodes = [replace(tiny_episode(4), seed=seed, provenance={"cue": seed, "cue_end": 1}) for seed in range(3)]
    seen = list(sightings(policy, episodes))
    assert [(s.ticks_after_cue, s.cue) for s in seen] == [(t, c) for t in range(len(episodes[0]) - 1) for c in range(3)]
    assert all(np.isfinite(s.memory).all() for s in seen)
    donors = record_donors(policy, episodes)
    changes = action_changes(policy, episodes, donors, replan_every=2, noise_seed=0)
    assert changes.keys() == set(INTERVENTIONS)
    assert changes["none"] == 0
    assert all(np.isfinite(value) for value in changes.values())


def test_an_audit_continues_and_does_nothing_twice(dataset: Path, remembering: Path, tmp_path: Path) -> None:
    class Dying(CueEnvironment):
        def step(self, actions):
            if 107 in self.seeds:
                raise RobomemError("died")
            return super().step(actions)

    with EpisodeLog(tmp_path, {"env_id": "Cue", "policy": "toy"}) as log:
        auditor = Auditor(ToyPolicy(), Recorded(str(dataset), 40, "Cue"), log, SETTINGS)
        with pytest.raises(RobomemError, match="died"):
            auditor.intervene(Dying(1), SEEDS)
        assert len(log.results) == 7
    whole = read_audit(remembering)
    assert run_audit(ToyPolicy(), dataset, tmp_path) == whole
    lines = (tmp_path / "episodes.jsonl").read_bytes()
    assert lines.count(b"\n") == len(INTERVENTIONS) * len(SEEDS)
    (tmp_path / "audit.json").unlink()
    assert run_audit(ToyPolicy(), dataset, tmp_path, rows=0) == whole
    assert (tmp_path / "episodes.jsonl").read_bytes() == lines


def test_donors_are_other_episodes_at_the_same_tick() -> None:
    policy, episodes = ToyPolicy(), [record(seed) for seed in range(4)]
    donors = record_donors(policy, episodes)
    own = {(m.tick, episodes[row].seed): m.memory.state["belief"][i] for m in replay(policy, episodes)
           for i, row in enumerate(m.rows)}  # fmt: skip
    empty = policy.init_memory(1)
    for name in ("swap", "shuffle"):
        intervene = make_intervention(name, donors)
        assert intervene is not None
        assert intervene(empty, 0, 0) is empty
        given = [intervene(empty, 0, tick) for tick in range(1, 12)]
        assert [float(m.state["ticks"]) for m in given] == list(range(1, 12))
        beliefs = [[float(own[tick, seed]) for seed in (1, 2, 3)] for tick in range(11)]
        assert all(float(m.state["belief"]) in possible for m, possible in zip(given, beliefs, strict=True))
    assert make_intervention("none", donors) is None


def test_replay_equals_observing_one_by_one() -> None:
    policy, episodes = ToyPolicy(), [record(seed) for seed in (1, 2, 3)]
    assert len({len(episode) for episode in episodes}) > 1
    ends = {row: moment for moment in replay(policy, episodes) for row in moment.rows}
    for row, episode in enumerate(episodes):
        moment = ends[row]
        assert moment.tick == len(episode) - 1
        at = moment.rows.index(row)
        assert float(moment.memory.state["belief"][at]) == pytest.approx(2 * cue_of(episode.seed) - 1)
        assert float(moment.memory.state["clock"][at]) == pytest.approx(episode.timestamps[-1], abs=1e-5)


def test_a_dataset_of_another_task_is_refused(dataset: Path) -> None:
    with pytest.raises(RobomemError, match=r"is of Cue, the audit of RememberColor3-VLA-v0"):
        Recorded(str(dataset), 40, "RememberColor3-VLA-v0")


def test_a_dataset_of_others_is_read_by_a_mapping(tmp_path: Path) -> None:
    root = record_foreign(tmp_path / "task", MIKASA, (3, 2), robot_type="mikasa_robo")
    recorded = Recorded(str(root), 40, "RememberColor3-VLA-v0", "mikasa_lerobot")
    assert [len(episode) for episode in recorded.first(2)] == [3, 2]
    assert recorded.window(2, horizon=4).dt.shape == (2, 3)
    with pytest.raises(RobomemError, match="mikasa_npz"):
        Recorded(str(root), 40, "RememberColor3-VLA-v0", "mikasa_npz")


def test_probe_finds_what_is_there_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    noise = rng.normal(size=(90, 60))
    assert decode(noise, labels).mean() < 0.5
    hint = noise.copy()
    hint[:, :3] += 3 * np.eye(3)[labels]
    assert decode(hint, labels).mean() > 0.8
    assert decode(np.ones((90, 4)), labels).mean() < 0.6


def outcomes(successes: list[bool], choice: int = 0) -> list[EpisodeResult]:
    return [
        EpisodeResult(seed=seed, success_once=s, success_at_end=s, first_choice=choice, total_reward=0.0, steps=1)
        for seed, s in enumerate(successes)
    ]


@pytest.mark.parametrize(
    ("none", "swap", "change", "verdict"),
    [
        ([True] * 18 + [False] * 2, [True] * 6 + [False] * 14, 0.3, "uses memory"),
        ([True] * 10 + [False] * 10, [True] * 6 + [False] * 14, 0.3, "inconclusive"),
        ([True] * 10 + [False] * 10, [True] * 10 + [False] * 10, 0.3, "does not use memory"),
        ([False] * 20, [False] * 20, 0.3, "inconclusive"),
        ([False] * 20, [False] * 20, 0.0, "does not use memory"),
    ],
)
def test_verdicts(none: list[bool], swap: list[bool], change: float, verdict: str) -> None:
    pairs = compare({"none": outcomes(none), "zero": outcomes(none), "swap": outcomes(swap)})
    assert [pair.intervention for pair in pairs] == ["zero", "swap"]
    assert judge(pairs, {"none": 0.0, "swap": change})[0] == verdict


def test_cues_of_the_toy_are_balanced_and_of_both_lengths() -> None:
    assert {cue_ticks(seed) for seed in SEEDS} == {1, 2}
    assert 6 <= sum(cue_of(seed) for seed in SEEDS) <= 14
