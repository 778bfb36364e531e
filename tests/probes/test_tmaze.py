"""A walk down the corridor leaves out whole circles of the memory, and nothing else."""

import pytest
import torch
from torch import Tensor

from robomem.policies.memory.base import State
from robomem.probes.base import steady
from robomem.probes.model import Model, build_memory
from robomem.probes.tmaze import CHUNK, walk

ROWS, TICKS = 2, 805


def every_chunk(model: Model, state: State, observation: Tensor, ticks: int) -> State:
    """The definition of `walk`."""
    for size in [CHUNK] * (ticks // CHUNK) + [ticks % CHUNK]:
        _, state = model.scan(state, observation[:, None].expand(-1, size, -1), steady(ROWS, size))
    return state


@pytest.mark.parametrize(("name", "returns"), [("window", True), ("retrieval:capacity=8", True), ("bank", False)])
def test_a_walk_ends_where_all_of_its_steps_do(name: str, returns: bool) -> None:
    """A segment of the retrieval has six ticks, a chunk 16: three chunks are a circle. Ages of a bank never return."""
    torch.manual_seed(0)
    model, reports = build_memory(name, 3, 2), []
    entrance, corridor = torch.randn(2, ROWS, 3)
    with torch.inference_mode():
        _, state = model.step(model.init(ROWS), entrance, steady(ROWS, 1)[:, 0])
        found = walk(model, state, corridor, TICKS, reports.append)
        expected = every_chunk(model, state, corridor, TICKS)
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    assert (len(reports) < TICKS // CHUNK) == returns
