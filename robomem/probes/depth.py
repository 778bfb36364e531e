"""A probe of recurrent depth: mazes that take as many iterations as their longest way."""

from typing import TYPE_CHECKING

from robomem.probes.base import Probe

if TYPE_CHECKING:
    pass

SIDE = 8
"""Cells."""
FREE = 0.6
"""Share of free cells: near the threshold where open mazes become closed ones, so that ways are long and winding."""
SHORTEST = 14
"""Steps from the start to the farthest cell that can be reached, at least."""
DRAWN = 16
"""Mazes drawn for each that is long enough, about."""
ITERATIONS = (1, 2, 4, 8, 16)


class Depth(Probe):
    """Which cells can be reached from a start? The trunk sees the whole maze as its context, and nothing else."""

    title = f"Recurrent depth: all cells of a maze of {SIDE} x {SIDE} that can be reached from a start; share of mazes"
    features = 2 * SIDE**2
    outputs = SIDE**2
    conditions = (*(f"{count} iterations" for count in ITERATIONS), "most iterations", "adaptive")
    headline = "adaptive"
    group = "trunk"
