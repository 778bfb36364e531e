"""The `vit` encoder: its backbone is the published model, never learns, and travels in the checkpoint."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from memories import awake
from torch.nn import functional
from transformers import AutoImageProcessor, AutoModel
from untrained import Untrained, untrained
from vision import save_model, vit_config
from windows import EMBODIMENT, A, B, assert_trained_as_acted, make_window, observed, untaught, windows

from robomem import checkpoint
from robomem.config import OptimConfig
from robomem.contract import Observation, Window
from robomem.errors import RobomemError
from robomem.policies.build import build_policy
from robomem.policies.encoders.backbone import Backbone
from robomem.policies.policy import MemoryPolicy
from robomem.training.learner import make_learner

FAMILIES = ("vit", "dinov2", "siglip")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of models by family; not to be changed."""
    root = tmp_path_factory.mktemp("models")
    return {family: save_model(root / family, family) for family in FAMILIES}


def make(model: Path, *overrides: str) -> Untrained:
    """The memory policy with a `vit` encoder as it begins, moved from its zero-initialised projections."""
    settings = [f"policy.encoder.backbone.model={model}", "policy.encoder.backbone.grid=2"]
    made = untrained(EMBODIMENT, "encoder=vit", "policy.encoder.channels=16", *settings, *overrides)
    return replace(made, policy=awake(made.policy))


@pytest.fixture(scope="module")
def made(models: dict[str, Path]) -> Untrained:
    return make(models["dinov2"])


@pytest.fixture(scope="module")
def policy(made: Untrained) -> MemoryPolicy:
    assert isinstance(made.policy, MemoryPolicy)
    return made.policy


def images(count: int = 5, height: int = 32, width: int = 32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, height, width, 3), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("family", FAMILIES)
def test_features_are_those_of_the_model(family: str, models: dict[str, Path]) -> None:
    """Of its own library, image processor included, where that does not crop."""
    backbone, coarse = Backbone(model=str(models[family]), grid=2), images(height=6, width=6).permute(0, 3, 1, 2)
    smooth = functional.interpolate(coarse.float(), (48, 48), mode="bilinear").clamp(20, 235)
    seen = smooth.round().byte().permute(0, 2, 3, 1)
    processor = AutoImageProcessor.from_pretrained(
        models[family], do_center_crop=False, size={"height": 32, "width": 32}
    )
    pixels = processor(images=list(seen.permute(0, 3, 1, 2)), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(backbone.preprocessing(seen), pixels, atol=1 / 255 / 0.26, rtol=0)  # it rounds twice
    whole = AutoModel.from_pretrained(models[family])
    model = whole.vision_model if family == "siglip" else whole
    with torch.no_grad():
        hidden = model(pixel_values=backbone.preprocessing(seen)).last_hidden_state
    assert hidden.shape[1] == 16 + (family != "siglip")
    cells = hidden[:, -16:].unflatten(1, (2, 2, 2, 2)).mean((2, 4))
    torch.testing.assert_close(backbone(seen), cells.flatten(1, 2), atol=1e-5, rtol=1e-4)


def test_each_image_counts_alone(policy: MemoryPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, seen = policy.encoder.frozen(), images(5, 40, 24)
    assert backbone is not None
    together = backbone(seen)
    assert together.shape == (5, *backbone.shape) == (5, 4, 16)
    assert torch.equal(backbone(seen), together)
    torch.testing.assert_close(backbone(seen[3:4])[0], together[3], atol=1e-5, rtol=1e-4)
    monkeypatch.setattr("robomem.policies.encoders.backbone._AT_ONCE", 2)
    torch.testing.assert_close(backbone(seen), together, atol=1e-5, rtol=1e-4)


def test_training_sees_what_acting_sees(made: Untrained, policy: MemoryPolicy) -> None:
    assert_trained_as_acted(policy, windows(made.spec.horizon))


def test_the_backbone_never_learns_and_all_else_does(made: Untrained) -> None:
    learner = make_learner(made.policy, OptimConfig(lr=0.1))
    policy: Any = learner.policy.train()
    assert not policy.encoder.backbone.training
    assert not any(module.training for module in policy.encoder.backbone.modules())
    frozen = {name: p.clone() for name, p in policy.named_parameters() if ".backbone." in name}
    assert untaught(policy, windows(made.spec.horizon)) == list(frozen)
    assert all(policy.get_parameter(name).grad is None for name in frozen)
    learner.optimizer.step()
    assert all(torch.equal(policy.get_parameter(name), value) for name, value in frozen.items())
    assert {id(p) for group in learner.optimizer.param_groups for p in group["params"]} == {
        id(p) for p in policy.parameters() if p.requires_grad
    }


def test_checkpoint_needs_no_other_file(models: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(models["siglip"], tmp_path / "model")
    made = make(folder)
    checkpoint.save(tmp_path / "saved", made.policy, made.config, made.spec, made.statistics)
    shutil.rmtree(folder)
    loaded, mine = checkpoint.load(tmp_path / "saved"), made.policy
    assert isinstance(loaded, MemoryPolicy)
    assert isinstance(mine, MemoryPolicy)
    window, noise = make_window(1, first=True, horizon=made.spec.horizon), torch.randn(B, made.spec.horizon, A)
    with torch.no_grad():
        seen = [observed(p, p.init_memory(B), window) for p in (mine, loaded)]
        assert torch.equal(mine.plan(seen[0], noise).actions, loaded.plan(seen[1], noise).actions)
    digests = [p.encoder.frozen().digest for p in (mine, loaded)]  # pyright: ignore[reportOptionalMemberAccess]
    assert digests[0] == digests[1]
    again = checkpoint.policy_config(tmp_path / "saved")
    checkpoint.save(tmp_path / "again", loaded, again, made.spec, made.statistics)
    assert checkpoint.policy_config(tmp_path / "again") == again


def test_digest_tells_weights_grids_and_models_apart(models: dict[str, Path], tmp_path: Path) -> None:
    moved = shutil.copytree(models["vit"], tmp_path / "moved")
    same = [Backbone(model=str(folder), grid=2).digest for folder in (models["vit"], moved)]
    others = [
        Backbone(model=str(models["vit"]), grid=3).digest,
        Backbone(model=str(models["dinov2"]), grid=2).digest,
        Backbone(model=str(save_model(tmp_path / "seed", seed=1)), grid=2).digest,
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 4


def with_features(window: Window, policy: MemoryPolicy) -> Window:
    backbone, seen = policy.encoder.frozen(), window.observation
    assert backbone is not None
    features = {
        name: backbone(image.flatten(0, 1)).half().unflatten(0, image.shape[:2]) for name, image in seen.images.items()
    }
    return replace(window, observation=Observation({}, seen.proprio, seen.instruction, features))


def test_features_in_place_of_images_train_alike(made: Untrained, policy: MemoryPolicy) -> None:
    window = make_window(1, first=True, horizon=made.spec.horizon)
    with torch.no_grad():
        expected, after = policy.loss(window, policy.init_memory(B))
        found, memory = policy.loss(with_features(window, policy).to("cpu"), policy.init_memory(B))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(memory.working["tokens"], after.working["tokens"], rtol=2e-2, atol=2e-2)


def damaged(folder: Path, file: str, data: bytes | None) -> Path:
    (folder / file).unlink()
    if data is not None:
        (folder / file).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("model.safetensors", b"\x10\x00\x00"),
        ("model.safetensors", None),
        ("config.json", None),
        ("config.json", b'{"model_type": "unheard_of"}'),
        ("preprocessor_config.json", None),
    ],
    ids=["damaged weights", "no weights", "no config", "unknown model", "no preprocessing"],
)
def test_model_that_cannot_be_read_is_named(
    file: str, data: bytes | None, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = damaged(shutil.copytree(models["vit"], tmp_path / "model"), file, data)
    with pytest.raises(
        RobomemError, match=r"cannot be loaded as an image encoder .* set policy\.encoder\.backbone\.mo"
    ) as caught:
        Backbone(model=str(folder))
    assert str(folder) in str(caught.value)


def test_unknown_model_is_named() -> None:
    with pytest.raises(RobomemError, match=r"^nobody/nothing cannot be loaded as an image encoder"):
        Backbone(model="nobody/nothing")


def test_pickled_weights_are_refused(models: dict[str, Path], tmp_path: Path) -> None:
    folder = damaged(shutil.copytree(models["vit"], tmp_path / "model"), "model.safetensors", None)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04N.")
    with pytest.raises(RobomemError, match="cannot be loaded"):
        Backbone(model=str(folder))


def test_grid_finer_than_the_patches_is_refused(models: dict[str, Path]) -> None:
    with pytest.raises(RobomemError, match=r"a grid of 5 x 5 from 4 x 4 patches"):
        Backbone(model=str(models["vit"]), grid=5)


def test_its_file_is_what_the_tests_build(models: dict[str, Path], made: Untrained) -> None:
    """With the settings that the tests change."""
    file = yaml.safe_load((Path(__file__).parents[2] / "configs/encoder/vit.yaml").read_text())
    changed = vit_config(models["dinov2"])
    assert {**file, "channels": 16, "backbone": file["backbone"] | changed["backbone"]} == changed
    assert made.config["encoder"] == changed
    build_policy(made.config, made.spec, made.statistics)
