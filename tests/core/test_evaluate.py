"""Records of an evaluation: durable, resumable, never mixed, and the same twice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_env import INSTRUCTION, CueEnvironment, ToyPolicy, evaluate_toy

from robomem.cli import run
from robomem.config import EvalConfig
from robomem.errors import RobomemError
from robomem.evaluate import complete, evaluate
from robomem.intervals import wilson
from robomem.records import EpisodeLog, load_results
from robomem.rollout import EpisodeResult, rollout
from robomem.summary import digest, summarise, table

EPISODES = 12


def result(seed: int, **changes) -> EpisodeResult:
    values: dict[str, Any] = {"candidates": 3, "instruction": "touch it"}
    values |= {"success_once": True, "success_at_end": False, "first_choice": 1, "total_reward": -0.1, "steps": 7}
    return EpisodeResult(**{"seed": seed, "observe_ms": (1.0, 3.0), "plan_ms": (4.0,), **values, **changes})


def test_same_seeds_give_the_same_digest_and_a_resumed_run_too(tmp_path: Path) -> None:
    first, second = (evaluate_toy(tmp_path / name, EPISODES).results for name in ("a", "b"))
    assert digest(first) == digest(second)
    assert {(r.instruction, r.candidates) for r in load_results(tmp_path / "a")} == {(INSTRUCTION, 2)}
    evaluate_toy(tmp_path / "c", EPISODES // 2)
    assert digest(evaluate_toy(tmp_path / "c", EPISODES).results) == digest(first)
    assert digest(first[1:]) != digest(first)
    assert digest([replace(first[0], total_reward=1.0), *first[1:]]) != digest(first)


def test_a_torn_line_is_mended(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path, {}) as log:
        log.append(result(1))
        log.append(result(2))
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    with EpisodeLog(tmp_path, {}) as log:
        assert log.results == (result(1),)
        assert log.remaining([1, 2]) == [2]
        log.append(result(2))
    assert load_results(tmp_path) == (result(1), result(2))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path, {}) as log:
        log.append(result(1))
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(b'{"seed": 3}\n' + path.read_bytes())
    with pytest.raises(RobomemError, match=r"line 1 of .*episodes\.jsonl is damaged"):
        EpisodeLog(tmp_path, {})


def test_results_of_another_configuration_are_refused_or_dropped(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path, {"render": "lite", "backend": "cpu"}) as log:
        log.append(result(1))
    (tmp_path / "videos").mkdir()
    with pytest.raises(RobomemError, match=r"render: there 'lite', now 'exact'\); set another output_dir"):
        EpisodeLog(tmp_path, {"render": "exact", "backend": "cpu"})
    with EpisodeLog(tmp_path, {"render": "lite", "backend": "cpu"}, overwrite=True) as log:
        assert log.results == (result(1),)
    with EpisodeLog(tmp_path, {"render": "exact", "backend": "cpu"}, overwrite=True) as log:
        assert not log.results
    assert not (tmp_path / "videos").exists()
    (tmp_path / "episodes.jsonl").write_text("")
    (tmp_path / "config.json").unlink()
    with pytest.raises(RobomemError, match="render: there None"):
        EpisodeLog(tmp_path, {"render": "exact"})


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path, {}), pytest.raises(RobomemError, match="another process writes to"):
        EpisodeLog(tmp_path, {})
    EpisodeLog(tmp_path, {}).__exit__(None, None, None)


def test_a_failure_keeps_the_results_before_it(tmp_path: Path) -> None:
    class Dying(CueEnvironment):
        def step(self, actions):
            if 3 in self.seeds:
                raise RobomemError("simulator process 0 died")
            return super().step(actions)

    with EpisodeLog(tmp_path, {}) as log, pytest.raises(RobomemError, match="died"):
        complete(log, range(6), lambda seeds: rollout(ToyPolicy(), Dying(1), seeds, replan_every=2))
    assert [r.seed for r in load_results(tmp_path)] == [0, 1, 2]


def test_summary_counts_what_it_says() -> None:
    results = [
        result(1),
        result(2, first_choice=-1, observe_ms=(5.0,)),
        result(3, first_choice=0, success_once=False, steps=10),
        result(4, success_at_end=True),
    ]
    summary = summarise({"env_id": "Cue", "policy": "toy"}, results)
    assert (summary["success_once"]["count"], summary["success_once"]["episodes"]) == (3, 4)
    assert (summary["success_at_end"]["count"], summary["first_choice"]["episodes"]) == (1, 3)
    assert summary["first_choice"]["rate"] == pytest.approx(2 / 3)
    assert summary["mean_steps"] == 7.75
    assert (summary["instruction"], summary["chance"]) == ("touch it", pytest.approx(1 / 3))
    assert summary["latency_ms"]["observe_p50"] == 3.0
    assert summary["versions"]["torch"]
    assert table(json.loads(json.dumps(summary))).row_count == 9
    without_choice = summarise({"env_id": "Cue"}, [result(1, first_choice=0, candidates=0)])
    assert without_choice["first_choice"] is without_choice["chance"] is None


def test_wilson_interval() -> None:
    interval = wilson(10, 20)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    assert str(wilson(20, 20)) == "1.00 [0.84, 1.00]"
    assert wilson(0, 0) is None


def test_an_evaluation_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in {
        (): "nothing to evaluate, or two things; give checkpoint=PATH",
        ("baseline=oracl",): "baseline='oracl' is not one of oracle, sweep",
        (f"checkpoint={tmp_path}",): "holds no checkpoint",
        ("baseline=oracle", "sim.env_id=RememberColor4-VLA-v0"): "RememberColor4-VLA-v0",
        ("baseline=oracle", "sim.render=light"): "sim.render='light' is not one of exact, lite, none",
    }.items():
        assert run(["eval", *arguments]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert message in error


def test_baselines_on_the_real_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    oracle = EvalConfig(baseline="oracle", episodes=6, output_dir=str(tmp_path / "oracle"))
    summary = evaluate(oracle)
    assert summary["success_once"]["count"] == summary["success_at_end"]["count"] == 6
    assert summary["first_choice"]["count"] == 6
    assert summary["mean_steps"] == 25
    assert summary["instruction"].startswith("Observe the cube's color")
    assert summary["chance"] == pytest.approx(1 / 3)
    assert summary["latency_ms"]["plan_p50"] is None
    command = ["eval", "baseline=sweep", "episodes=6", f"output_dir={tmp_path / 'sweep'}"]
    assert run(command) == 0
    assert "sweep on RememberColor3-VLA-v0, 6 episodes" in capsys.readouterr().out
    sweep = json.loads((tmp_path / "sweep" / "summary.json").read_text())
    assert sweep["first_choice"]["count"] < sweep["success_once"]["count"] <= 6
    assert evaluate(oracle)["deterministic_digest"] == summary["deterministic_digest"]


def test_a_checkpoint_on_the_real_task(evaluation: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    command, folder = evaluation
    assert run(command) == 0
    assert "memoryless on RememberColor3-VLA-v0, 2 episodes" in capsys.readouterr().out
    assert [video.name for video in (folder / "videos").iterdir()] == ["4242424242.mp4"]
    results = load_results(folder)
    assert sorted(r.seed for r in results) == [4242424242, 4242424243]
    assert all(r.steps == len(r.observe_ms) == 25 and 0 < r.total_reward < 25 for r in results)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["policy"] == "memoryless"
    assert summary["render"] == "lite"
    assert summary["instruction"].startswith("Observe the cube's color")
    assert summary["chance"] == pytest.approx(1 / 3)
    assert summary["deterministic_digest"] == digest(results)
    assert run([*command, "start_seed=5"]) == 1
    assert "start_seed: there 4242424242, now 5" in capsys.readouterr().err
