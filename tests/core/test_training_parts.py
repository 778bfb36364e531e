"""The parts of the training loop by themselves."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from robomem.config import OptimConfig
from robomem.training.learner import learning_rate, make_learner
from robomem.training.random_state import get_random_state, seed_all, set_random_state


def test_learning_rate_warms_up_and_decays() -> None:
    config = OptimConfig(lr=2.0, warmup_steps=4, final_lr=0.1)
    assert [learning_rate(config, step, share=0.0) for step in range(5)] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert learning_rate(config, 10, share=1.0) == pytest.approx(0.2)
    assert learning_rate(config, 10, share=0.5) == pytest.approx(1.1)


def test_average_follows_the_weights_and_skips_the_random_start() -> None:
    policy = nn.Linear(1, 1, bias=False)
    learner = make_learner(policy, OptimConfig(ema=0.99))
    values = [1.0, 2.0, 4.0]
    for value in values:
        nn.init.constant_(policy.weight, value)
        assert learner.average is not None
        learner.average.update_parameters(policy)
    first = 1.0 + (2.0 - 1.0) * (1 - 2 / 11)
    assert learner.acting.get_parameter("weight").item() == pytest.approx(first + (4.0 - first) * (1 - 3 / 12))
    assert policy.weight.item() == 4.0


def test_vectors_have_no_weight_decay() -> None:
    learner = make_learner(nn.Linear(2, 3), OptimConfig(weight_decay=0.5))
    groups = {name: g["weight_decay"] for g in learner.optimizer.param_groups for name in g["param_names"]}
    assert groups == {"weight": 0.5, "bias": 0.0}


def test_random_state_is_json_and_complete() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), np.random.normal(), torch.randn(()).item()

    seed_all(3)
    draw()
    state = json.loads(json.dumps(get_random_state(torch.device("cpu"))))
    expected = draw()
    assert draw() != expected
    set_random_state(state, torch.device("cpu"))
    assert draw() == expected


def test_tensorboard_does_not_import_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text("raise SystemExit('TensorFlow was imported')")
    code = (
        "import sys; from pathlib import Path; from robomem.training.metrics import Metrics\n"
        "folder = Path(sys.argv[1])\n"
        "with Metrics(folder / 'metrics.jsonl', 0, folder / 'events') as metrics: metrics.write(1, {'loss': 0.5})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, tmp_path / "run"], env=environment, check=True, timeout=120)
    assert list((tmp_path / "run/events").glob("events.out.tfevents.*"))
