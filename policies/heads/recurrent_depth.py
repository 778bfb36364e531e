"""The trunk of recurrent depth (RD-VLA, arXiv 2602.07845): one core, iterated until its latent settles."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from robomem.errors import RobomemError
from robomem.policies.heads.trunk import Block, Code, SharedLinear, Solution, Trunk

SPREAD = 0.5
"""Standard deviation of the logarithm of the expected number of iterations in training."""


class RecurrentDepth(Trunk):
    """Prelude, weight-tied core with input injection, coda.

    The latent starts from the prelude, so from the context and the memory in it. Where RD-VLA starts from noise, stops
    a whole batch at once and decodes once more after stopping, this acts deterministically, stops each row by itself
    and decodes once. Its coda is linear: what hidden units of a coda find out comes too late for another iteration to
    build on, and with them the core did not learn to iterate. With a linear one it does
    (`robomem probe --probe shell_game --steps 8000 --minutes 10`).
    """

    def __init__(
        self,
        *,
        inputs: int,
        context: int,
        outputs: int,
        width: int = 256,
        mean_iterations: float = 6.0,
        max_iterations: int = 24,
        backprop: int = 4,
        tolerance: float = 0.02,
    ) -> None:
        """Build prelude and core of `width` units, and a coda; `inputs` may be 0.

        Args:
            inputs: Entries of an input.
            context: Entries of a context.
            outputs: Entries of an output.
            width: Units of the latent.
            mean_iterations: Expected number in training, more than 1; each step draws its own.
            max_iterations: Most iterations, in training and in acting.
            backprop: Last iterations that the gradient passes through.
            tolerance: In acting a row stops when its latent, of unit variance, changes by less (root mean square).

        Raises:
            RobomemError: a number out of its range.
        """
        super().__init__()
        if not (1 < mean_iterations <= max_iterations and backprop > 0):
            raise RobomemError(
                f"mean_iterations={mean_iterations} must be more than 1 and at most max_iterations={max_iterations}, "
                f"and backprop={backprop} at least 1"
            )
        self.mean_iterations, self.max_iterations = mean_iterations, max_iterations
        self.backprop, self.tolerance = backprop, tolerance
        self.enter = SharedLinear(inputs, context, width)
        self.prelude = Block(width, inputs, context)
        self.inject, self.core = nn.Linear(2 * width, width), Block(width, 0, context)
        self.coda = nn.Linear(width, outputs)

    def encode(self, context: Float[Tensor, "B C"]) -> Code:
        """Every layer's share of the context; the core's serves all its iterations."""
        return tuple(layer.encode(context) for layer in (self.enter, self.prelude, self.core))

    def forward(self, inputs: Float[Tensor, "B M I"], code: Code) -> Float[Tensor, "B M O"]:
        """Outputs after a random number of iterations."""
        start = latent = self._begin(inputs, code)
        iterations = self.draw_iterations()
        with torch.no_grad():
            for _ in range(iterations - self.backprop):
                latent = self._iterate(latent, start, code)
        for _ in range(min(iterations, self.backprop)):
            latent = self._iterate(latent, start, code)
        return self.coda(latent)

    def solve(self, inputs: Float[Tensor, "B M I"], code: Code) -> Solution:
        """Outputs after as many iterations as each row needs.

        On a GPU the host waits once per iteration, to learn whether any row still moves, and at no other place.
        """
        start = latent = self._begin(inputs, code)
        moving = torch.ones(latent.shape[:2], dtype=torch.bool, device=latent.device)
        iterations = torch.zeros(latent.shape[:2], device=latent.device)
        for _ in range(self.max_iterations):
            after = self._iterate(latent, start, code)
            change = (after - latent).float().square().mean(-1).sqrt()
            latent = torch.where(moving[..., None], after, latent)
            iterations = iterations + moving
            moving = moving & (change > self.tolerance)
            if not moving.any():
                break
        return Solution(self.coda(latent), iterations)

    def draw_iterations(self) -> int:
        """Log-normal Poisson, from 1 to the maximum, with the given mean before that cut.

        Drawn on the host from PyTorch's global generator, whose state a resumed run restores.
        """
        rate = torch.exp(SPREAD * torch.randn(()) + math.log(self.mean_iterations - 1) - SPREAD**2 / 2)
        return min(1 + int(torch.poisson(rate)), self.max_iterations)

    def _begin(self, inputs: Tensor, code: Code) -> Tensor:
        return _normalise(self.prelude(self.enter(inputs, code[0]), inputs, code[1]))

    def _iterate(self, latent: Tensor, start: Tensor, code: Code) -> Tensor:
        injected = _normalise(self.inject(torch.cat([latent, start], dim=-1)))
        return _normalise(self.core(injected, latent[..., :0], code[2]))


def _normalise(latent: Tensor) -> Tensor:
    """To unit variance, without gains: changes of the latent are relative ones."""
    return functional.layer_norm(latent, latent.shape[-1:])
