"""A frozen vision transformer: images of one camera become a small grid of features."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional

from robomem.errors import RobomemError
from robomem.policies.encoders.pretrained import Preprocessing, architecture_of, build_model, load_model

_AT_ONCE = 64
"""Images per pass, which bounds the memory that one takes."""


class Backbone(nn.Module):
    """Features of patches, averaged over the cells of a grid; never trained, and always in evaluation mode.

    Its weights are part of the policy's, so that a checkpoint needs no other file.
    """

    def __init__(
        self,
        *,
        model: str,
        grid: int = 8,
        architecture: Mapping[str, Any] | None = None,
        preprocessing: Mapping[str, Any] | None = None,
    ) -> None:
        """Load a model.

        Args:
            model: Id on the Hugging Face hub, or a local folder with the same files.
            grid: Rows and columns of the grid.
            architecture: With `preprocessing`, what a checkpoint keeps in place of the model's files (see `settings`):
                nothing is read then, and the weights are random until those of the checkpoint are given.
            preprocessing: Fields of `Preprocessing`.

        Raises:
            RobomemError: no such model, one that cannot be read, or none that makes a feature of each patch.
        """
        super().__init__()
        if architecture is None or preprocessing is None:
            self.model, self.preprocessing = load_model(model)
        else:
            self.model, self.preprocessing = build_model(architecture), Preprocessing(**preprocessing)
        self.grid = grid
        self.requires_grad_(False).eval()
        self.shape = (grid * grid, self.model.config.hidden_size)
        """P and F."""
        patch = getattr(self.model.config, "patch_size", 0)
        if not isinstance(patch, int) or patch < 1:
            raise RobomemError(f"{model} has no patches of one size; choose a ViT, DINOv2 or SigLIP model")
        self._patches = self.preprocessing.height // patch, self.preprocessing.width // patch
        self._check_patches(model)

    @torch.no_grad()
    def forward(self, images: UInt8[Tensor, "B Y X 3"]) -> Float[Tensor, "B P F"]:
        """Features of B images of one camera, row by row, on the device of the weights."""
        return torch.cat([self._features(part) for part in images.split(_AT_ONCE)])

    def train(self, mode: bool = True) -> "Backbone":
        """Stays in evaluation mode."""
        return super().train(False)

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments that build it without the files of the model."""
        architecture = architecture_of(self.model.config)
        return {"architecture": architecture, "preprocessing": asdict(self.preprocessing)}

    @property
    def digest(self) -> str:
        """Hash of all that its features depend on: weights, architecture, preprocessing and grid."""
        total = hashlib.sha256(json.dumps([self.settings, self.grid], sort_keys=True).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            total.update(name.encode())
            total.update(tensor.cpu().contiguous().numpy().tobytes())
        return total.hexdigest()[:16]

    def _features(self, images: UInt8[Tensor, "B Y X 3"]) -> Float[Tensor, "B P F"]:
        rows, columns = self._patches
        hidden = self.model(pixel_values=self.preprocessing(images.to(self.model.device))).last_hidden_state
        patches = hidden[:, -rows * columns :].transpose(1, 2).unflatten(2, (rows, columns))  # summaries come first
        return functional.adaptive_avg_pool2d(patches, self.grid).flatten(2).transpose(1, 2)

    def _check_patches(self, name: str) -> None:
        """Raise unless a blank image gets a feature of each patch, and a few summaries at most."""
        rows, columns = self._patches
        blank = torch.zeros(1, self.preprocessing.height, self.preprocessing.width, 3, dtype=torch.uint8)
        with torch.no_grad():
            found = tuple(self.model(pixel_values=self.preprocessing(blank)).last_hidden_state.shape)
        if len(found) != 3 or not 0 <= found[1] - rows * columns <= 16 or not 2 <= self.grid <= min(rows, columns):
            raise RobomemError(
                f"{name} makes {found} of an image, which a grid of {self.grid} x {self.grid} from {rows} x {columns} "
                "patches cannot be taken from; choose a ViT, DINOv2 or SigLIP model and a grid from 2 up to its patches"
            )
