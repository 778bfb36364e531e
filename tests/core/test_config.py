"""Configurations compose from every option, and nothing that no schema has gets in."""

import os
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

from robomem.config import SCHEMAS, OptimConfig, TrainConfig, register_schemas, to_dataclass
from robomem.errors import RobomemError

ROOT = Path(__file__).parents[2]
TINY = ["policy=tiny", "max_steps=3", "data.root=here"]
PARTS = {
    "policy/pair.yaml": "# @package _global_\ndefaults: [{override /memory: a}]\npolicy: {name: pair, horizon: 2}\n",
    "memory/a.yaml": "# @package policy.memory\n_target_: robomem.policies.memory.a.A\nsize: 1\n",
    "memory/b.yaml": "# @package policy.memory\n_target_: robomem.policies.memory.b.B\n",
    "experiment/right.yaml": "# @package _global_\n"
    "defaults: [{override /policy: pair}, {override /memory: b}]\nseed: 7\n",
    "experiment/misspelt.yaml": "# @package _global_\noptim: {learning_rate: 1}\n",
}


@pytest.fixture
def composed(tmp_path: Path) -> Callable[..., Any]:
    """Composes the training configuration with the test policy and the parts above within reach."""
    for name, text in PARTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    search = f"hydra.searchpath=[file://{ROOT}/tests/configs,file://{tmp_path}]"

    def compose_train(*overrides: str) -> Any:
        register_schemas()
        with initialize_config_module("robomem.configs", version_base="1.3"):
            return compose("train", [search, *overrides])

    return compose_train


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "configs" / group).glob("*.yaml"))


def plain(value: Any) -> bool:
    """Whether nothing of OmegaConf is left."""
    if is_dataclass(value):
        return all(map(plain, vars(value).values()))
    if isinstance(value, dict):
        return type(value) is dict and all(map(plain, value.values()))
    return type(value) in (str, int, float, bool, list, type(None))


def test_values_become_plain_dataclasses(composed: Callable[..., Any]) -> None:
    config = to_dataclass(composed(*TINY, "optim.lr=1e-2", "data.augmentation.shift=2"), TrainConfig)
    assert plain(config)
    assert (config.name, config.run_dir) == ("tiny", "outputs/train/tiny")
    assert config.policy == {"name": "tiny", "horizon": 3, "hidden": 8, "noise": 0.1}
    assert (config.optim.lr, config.data.augmentation.shift, config.max_steps) == (0.01, 2, 3)


def test_yaml_repeats_the_defaults_of_the_schema(composed: Callable[..., Any]) -> None:
    """What the schema says of a value is true whichever way the configuration is made."""
    config = to_dataclass(composed(*TINY), TrainConfig)
    assert config.optim == OptimConfig()
    bare = TrainConfig(name="", run_dir="", max_steps=3, policy=config.policy)
    assert (config.checkpoints, config.tracker) == (bare.checkpoints, bare.tracker)


def test_one_word_swaps_the_memory(composed: Callable[..., Any]) -> None:
    memory = "robomem.policies.memory."
    assert composed("policy=pair").policy.memory == {"_target_": f"{memory}a.A", "size": 1}
    assert composed("policy=pair", "memory=b").policy.memory == {"_target_": f"{memory}b.B"}
    assert composed("policy=pair", "policy.memory.size=5").policy.memory.size == 5


def test_one_word_swaps_the_trunk_of_any_head(composed: Callable[..., Any]) -> None:
    for head in options("head"):
        usual, swapped = (
            composed(*TINY, f"head={head}", *more).policy.head for more in ([], ["trunk=recurrent_depth"])
        )
        assert usual._target_ == swapped._target_
        assert usual.trunk._target_.endswith(".ConditionalMLP")
        assert swapped.trunk._target_.endswith(".RecurrentDepth")
        assert "depth" not in swapped.trunk


def test_experiment_overrides_and_the_command_line_comes_last(composed: Callable[..., Any]) -> None:
    config = composed("policy=tiny", "experiment=right")
    assert (config.policy.memory._target_, config.seed) == ("robomem.policies.memory.b.B", 7)
    config = composed("experiment=right", "memory=a", "seed=8")
    assert (config.policy.memory._target_, config.seed) == ("robomem.policies.memory.a.A", 8)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["optim.learning_rate=1"], "optim.learning_rate"),
        (["sed=1"], "sed"),
        (["policy.hiden=1"], "policy.hiden"),
        (["data.augmentation.shft=1"], "data.augmentation.shft"),
        (["experiment=misspelt"], "learning_rate"),
        (["max_steps=many"], "max_steps"),
        (["memry=b"], "memry"),
    ],
)
def test_misspelt_key_is_refused_by_name(overrides: list[str], key: str, composed: Callable[..., Any]) -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed(*TINY, *overrides)
    assert key in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("max_steps=null", "set max_steps or max_minutes"),
        ("max_steps=0", "must be positive"),
        ("max_minutes=inf", "must be positive and finite"),
        ("precision=half", "'half' is not one of float32, bfloat16"),
        ("policy.horizon=0", r"policy.horizon=0 must be a positive number"),
        ("optim.lr=-1", "optim.lr=-1.0 must be positive"),
        ("optim.ema=1", "optim.ema=1.0 is a decay"),
        ("optim.final_lr=2", "is a share of optim.lr"),
        ("checkpoints.every=0", "checkpoints.every=0 must be positive"),
        ("checkpoints.keep_last=0", "checkpoints.keep_last=0 must be positive"),
        ("tracker.every=0", "tracker.every=0 must be positive"),
        ("data.batch_size=0", "data.batch_size=0 must be positive"),
    ],
)
def test_value_out_of_range_is_refused_with_the_fix(override: str, message: str, composed: Callable[..., Any]) -> None:
    with pytest.raises(RobomemError, match=message):
        to_dataclass(composed(*TINY, override), TrainConfig)


def test_value_that_must_be_given_is_named(composed: Callable[..., Any]) -> None:
    with pytest.raises(MissingMandatoryValue, match=r"data\.root"):
        to_dataclass(composed("policy=tiny", "max_steps=1"), TrainConfig)


@pytest.mark.parametrize("group", ["data", "debug", "optim", "paths", "tracker", "encoder", "memory", "head", "trunk"])
def test_every_option_composes(group: str, composed: Callable[..., Any]) -> None:
    for option in options(group):
        config = composed(*TINY, f"{group}={option}")
        assert not OmegaConf.missing_keys(config)
        to_dataclass(config, TrainConfig)
        if group in ("encoder", "memory", "head"):
            assert config.policy[group]._target_.startswith("robomem.policies."), option


def test_every_policy_composes(composed: Callable[..., Any]) -> None:
    for option in options("policy"):
        config = to_dataclass(composed(f"policy={option}", "max_steps=3", "data.root=here"), TrainConfig)
        assert config.policy["name"]


@pytest.mark.parametrize("option", options("experiment"))
def test_every_experiment_is_complete(option: str, composed: Callable[..., Any]) -> None:
    overrides = [f"experiment={option}"] if options("policy") else [f"experiment={option}", "policy=tiny"]
    assert to_dataclass(composed(*overrides), TrainConfig).data.root != "???"


@pytest.mark.parametrize("program", SCHEMAS)
def test_every_program_composes(program: str) -> None:
    register_schemas()
    overrides = ["hydra.searchpath=[file://" + str(ROOT / "tests/configs") + "]"]
    with initialize_config_module("robomem.configs", version_base="1.3"):
        config = compose(program, [*overrides, "policy=tiny"] if program == "train" else [])
    assert OmegaConf.get_type(config) is SCHEMAS[program]


def test_folders_come_from_the_environment(composed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "ROBOMEM_OUTPUTS", "/runs")
    monkeypatch.setitem(os.environ, "ROBOMEM_DATA", "/episodes")
    config = to_dataclass(composed("policy=tiny", "experiment=remember_color"), TrainConfig)
    assert config.run_dir == "/runs/train/remember_color-tiny"
    assert config.data.root == "/episodes/RememberColor3-VLA-v0"
