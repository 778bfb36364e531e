"""The `small` encoder: convolutions from scratch that train on a CPU."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from robomem.contract import Observation
from robomem.errors import RobomemError, SpecMismatch
from robomem.policies.encoders.base import PatchEncoder, standardise
from robomem.policies.tokens import Layout
from robomem.spec import PolicySpec
from robomem.statistics import Statistics

COLOURS = 4
"""Channels of raw colour in a token: three differences to grey, and a constant, so that angles between colours tell
their strength too."""


class SmallEncoder(PatchEncoder):
    """Patches of every camera, and one token of proprioception and instruction.

    The patch tokens carry content alone, not their position, so that a patch can be recognised elsewhere.
    """

    def __init__(self, *, spec: PolicySpec, statistics: Statistics, patch: int = 16, channels: int = 64) -> None:
        """Build for the cameras and the proprioception of a specification.

        Args:
            spec: Cameras must have equal sizes, multiples of a patch.
            statistics: For the normalisation of proprioception.
            patch: Pixels of a patch's side: 8, 16, 32, ...
            channels: D of the tokens.

        Raises:
            SpecMismatch: cameras of other sizes.
            RobomemError: a patch that halvings of an image do not lead to, or no channel beside those of raw colour.
        """
        if patch < 8 or patch.bit_count() != 1:
            raise RobomemError(f"patch={patch} must be a power of two from 8 up, such as 8, 16 or 32")
        if channels < COLOURS + 2:
            raise RobomemError(f"channels={channels} must be at least {COLOURS + 2}, of which {COLOURS} are raw colour")
        sizes = {(camera.height, camera.width) for camera in spec.cameras}
        if len(sizes) != 1 or any(side % patch for side in next(iter(sizes))):
            raise SpecMismatch(
                f"the small encoder needs cameras of one size in multiples of {patch} pixels, the spec has {sizes}"
            )
        height, width = (side // patch for side in next(iter(sizes)))
        layout = Layout(len(spec.cameras), height, width, channels, appearance=COLOURS)
        towers = (_tower(patch, channels - COLOURS) for _ in spec.cameras)
        super().__init__(spec=spec, statistics=statistics, layout=layout, towers=towers)
        self.patch = patch

    def look(
        self, camera: str, tower: nn.Module, observation: Observation
    ) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P 2"]]:
        """Learned features and the colour that stands out, and where that is."""
        image = _opponent(observation.images[camera])
        features = standardise(tower(image).flatten(2).transpose(1, 2))
        colour, offset = _standout(image, self.patch)
        return torch.cat([features, colour / 2, torch.ones_like(colour[..., :1])], dim=-1), self.grid + offset


def _tower(patch: int, channels: int) -> nn.Sequential:
    """A convolution of stride 4, then halvings until a pixel is a patch."""
    width = channels // 2
    layers: list[nn.Module] = [nn.Conv2d(4, width, kernel_size=6, stride=4, padding=1), nn.GELU()]
    for _ in range(int(math.log2(patch // 4))):
        layers.append(_Halving(width, channels))
        width = channels
    return nn.Sequential(*layers, nn.Conv2d(channels, channels, kernel_size=1))


class _Halving(nn.Module):
    """A strided convolution for where things are, and a maximum so that small things stand out."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.strided = nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1)
        self.maximum = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(inputs, outputs, kernel_size=1))

    def forward(self, maps: Tensor) -> Tensor:
        return nn.functional.gelu(self.strided(maps) + self.maximum(maps))


def _standout(image: Float[Tensor, "B 4 Y X"], patch: int) -> tuple[Float[Tensor, "B P 3"], Float[Tensor, "B P 2"]]:
    """The colour of each patch that differs most from the image's mean, and where the pixels of that colour are.

    Places are relative to the patch's middle, in image coordinates. A window of twice the patch's side sees a whole
    object of which the patch holds a part; pixels count from half of the colour's strength on.
    """
    hues, patch = nn.functional.avg_pool2d(image, 2)[:, 1:].contiguous(), patch // 2
    pixels = hues.unfold(2, patch, patch).unfold(3, patch, patch).flatten(4)
    most = pixels.square().sum(1, keepdim=True).argmax(-1, keepdim=True)
    colour = pixels.gather(-1, most.expand(-1, 3, -1, -1, -1))
    margin = patch // 2
    around = nn.functional.pad(hues, [margin] * 4).unfold(2, 2 * patch, patch).unfold(3, 2 * patch, patch)
    unit = colour / colour.square().sum(1, keepdim=True).clamp_min(1e-6)
    weight = (2 * torch.einsum("bcyxij,bcyx->byxij", around, unit[..., 0]) - 1).clamp(0, 1)
    steps = torch.arange(1 - 2 * patch, 2 * patch, 2, device=hues.device)
    marginals = zip((weight.sum(-1), weight.sum(-2)), hues.shape[2:], strict=True)
    middle = torch.stack([marginal @ (steps / side) for marginal, side in marginals], dim=-1)
    middle = middle / weight.sum((-1, -2)).clamp_min(1e-6)[..., None]
    return colour.squeeze(-1).flatten(2).transpose(1, 2), middle.flatten(1, 2)


def _opponent(images: Tensor) -> Float[Tensor, "B 4 Y X"]:
    """Luminance, and the three differences of a channel to it, each with a mean of zero over its image.

    In RGB the texture of a table outweighs the colour of a small object. The channels lie last in memory, as they came,
    which convolutions on a CPU take a third less time for.
    """
    pixels = images.permute(0, 3, 1, 2).float() / 64
    luminance = torch.full((1, 3), 1 / 3, device=images.device)
    differences = 2 * (torch.eye(3, device=images.device) - luminance)
    mixing = torch.cat([luminance, differences])[..., None, None]
    return nn.functional.conv2d(pixels - pixels.mean((2, 3), keepdim=True), mixing)
