"""Tiny vision transformers of random weights, in files as the Hugging Face hub has them."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    BitImageProcessor,
    Dinov2Config,
    Dinov2Model,
    SiglipConfig,
    SiglipImageProcessor,
    SiglipModel,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)

SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def save_model(folder: Path, family: str = "vit", seed: int = 0) -> Path:
    """The files of a model of 4 x 4 patches: `vit` (a classifier), `dinov2`, or `siglip` (of images and text)."""
    torch.manual_seed(seed)
    model, processor = _make(family)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _make(family: str) -> tuple[Any, Any]:
    square = {"height": 32, "width": 32}
    images: dict[str, Any] = {"image_size": 32, "patch_size": 8}
    if family == "vit":
        return ViTForImageClassification(ViTConfig(**SMALL, **images)), ViTImageProcessor(size=square)
    if family == "siglip":
        config = SiglipConfig(
            vision_config=SMALL | images,
            text_config=SMALL | {"vocab_size": 8, "bos_token_id": 1, "eos_token_id": 2},
        )
        return SiglipModel(config), SiglipImageProcessor(size=square)
    config = Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=56, patch_size=8)
    # Published ones resize to a little more than they crop to.
    return Dinov2Model(config), BitImageProcessor(size={"shortest_edge": 36}, crop_size=square)


def vit_config(model: Path | str, **backbone: Any) -> dict[str, Any]:
    """Settings of the `vit` encoder with a grid of 2 x 2."""
    return {
        "_target_": "robomem.policies.encoders.vit.VisionTransformer",
        "channels": 16,
        "backbone": {
            "_target_": "robomem.policies.encoders.backbone.Backbone",
            "model": str(model),
            "grid": 2,
            **backbone,
        },
    }
