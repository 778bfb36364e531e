"""Vision transformers of the Hugging Face hub: their weights, and how their images are prepared."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import functional

from robomem.errors import RobomemError

_FILTERS = {2: "bilinear", 3: "bicubic"}
"""Names of Pillow's numbers of filters."""
_NOT_ARCHITECTURE = ("_name_or_path", "architectures", "transformers_version", "dtype", "id2label", "label2id")


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to an image before the model sees it; the fields are JSON values.

    The whole image is resized, also where a model's own preprocessing crops it: what lies at the border matters to a
    robot, and patches keep their places.
    """

    height: int
    """Pixels that an image is resized to."""
    width: int
    filter: str
    """`bilinear` or `bicubic`, both antialiased."""
    scale: float
    """Factor of pixel values, 1 / 255 as a rule."""
    mean: Sequence[float]
    """Of the scaled channels, which is taken away."""
    std: Sequence[float]
    """That the difference is divided by."""

    def __call__(self, images: UInt8[Tensor, "B Y X 3"]) -> Float[Tensor, "B 3 V U"]:
        """Prepare images, on their device."""
        pixels = images.permute(0, 3, 1, 2).float()
        if pixels.shape[2:] != (self.height, self.width):
            size = self.height, self.width
            pixels = functional.interpolate(pixels, size, mode=self.filter, antialias=True).clamp(0, 255)
        mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (pixels * self.scale - mean) / std


def load_model(name: str) -> tuple[Any, Preprocessing]:
    """An image model (a `PreTrainedModel`) with its pretrained weights in float32, and its preprocessing.

    Args:
        name: Id on the hub, or a local folder with the same files; only safetensors are read, and no code.

    Raises:
        RobomemError: not found, damaged, or no image model.
    """
    from transformers import AutoConfig, AutoImageProcessor, AutoModel

    with _explained(name), _quiet():
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        processor = AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
        model, report = AutoModel.from_pretrained(
            name,
            config=getattr(config, "vision_config", config),
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    missing = [key for key in report["missing_keys"] if not key.startswith("pooler.")]
    if missing or not hasattr(processor, "image_mean"):
        raise RobomemError(f"{name} is no image model as a whole (it lacks {missing[:3] or 'image_mean'}); {_fix()}")
    return _headless(model), _preprocessing(processor, name)


def build_model(architecture: Mapping[str, Any]) -> Any:
    """A model of random weights.

    Args:
        architecture: As `architecture_of` gives it.
    """
    from transformers import AutoConfig, AutoModel

    return _headless(AutoModel.from_config(AutoConfig.for_model(**architecture), trust_remote_code=False))


def architecture_of(config: Any) -> dict[str, Any]:
    """JSON values that `build_model` makes a model of: no names of files, no versions."""
    return {key: value for key, value in config.to_dict().items() if key not in _NOT_ARCHITECTURE}


def _headless(model: Any) -> Any:
    """Without what summarises a whole image, which many published weights lack and nothing here reads."""
    if hasattr(model, "pooler"):
        model.pooler = None
    return model


def _preprocessing(processor: Any, name: str) -> Preprocessing:
    size = processor.crop_size if getattr(processor, "do_center_crop", False) else processor.size
    height, width = (size.get(side) or size.get("shortest_edge") for side in ("height", "width"))
    if height is None or width is None or int(processor.resample) not in _FILTERS:
        raise RobomemError(f"{name} resizes images to {size} by filter {processor.resample}, not known here; {_fix()}")
    normal = processor.do_normalize
    return Preprocessing(
        height=height,
        width=width,
        filter=_FILTERS[int(processor.resample)],
        scale=processor.rescale_factor if processor.do_rescale else 1.0,
        mean=tuple(processor.image_mean) if normal else (0.0,) * 3,
        std=tuple(processor.image_std) if normal else (1.0,) * 3,
    )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise RobomemError(f"{name} cannot be loaded as an image encoder ({reason}); {_fix()}") from error


def _fix() -> str:
    return (
        "set policy.encoder.backbone.model to the id of a ViT, DINOv2 or SigLIP model on the Hugging Face hub, or to a "
        "local folder with its config.json, preprocessor_config.json and model.safetensors"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own bars, and its table of the weights of other heads."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
