"""The shapes written in the contract are checked while tests run."""

from typing import Any

import pytest
import torch
from jaxtyping import TypeCheckError

from robomem.contract import ActionChunk, Memory, Observation, Prefix, Window


def observation(rows: int = 2, **changes: Any) -> Observation:
    image = torch.zeros(rows, 8, 10, 3, dtype=torch.uint8)
    values = {"images": {"base": image}, "proprio": torch.zeros(rows, 7), "instruction": ("touch it",) * rows}
    return Observation(**{**values, **changes})


def test_right_shapes_pass() -> None:
    assert observation().proprio.shape == (2, 7)


@pytest.mark.parametrize(
    "changes",
    [
        {"proprio": torch.zeros(3, 7)},
        {"proprio": torch.zeros(2, 7, dtype=torch.int64)},
        {"images": {"base": torch.zeros(2, 8, 10, 4, dtype=torch.uint8)}},
        {"images": {"base": torch.zeros(2, 8, 10, 3)}},
        {"instruction": "touch it"},
    ],
    ids=["rows", "dtype", "channels", "float image", "instruction"],
)
def test_wrong_field_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeCheckError):
        observation(**changes)


def test_action_chunk_needs_three_axes() -> None:
    with pytest.raises(TypeCheckError):
        ActionChunk(torch.zeros(2, 7))


def test_window_fields_share_their_axes() -> None:
    rows, ticks, horizon = 2, 3, 4
    pixels = torch.zeros(rows, ticks, 8, 10, 3, dtype=torch.uint8)
    seen = Observation({"base": pixels}, torch.zeros(rows, ticks, 7), ("touch it",) * rows)
    flags = torch.ones(rows, ticks, dtype=torch.bool)
    values = {
        "observation": seen,
        "dt": torch.zeros(rows, ticks),
        "is_first": flags,
        "valid": flags,
        "actions": torch.zeros(rows, ticks, horizon, 7),
        "previous_action": torch.zeros(rows, ticks, 7),
        "past_actions": torch.zeros(rows, ticks, horizon, 7),
        "past_valid": torch.ones(rows, ticks, horizon, dtype=torch.bool),
        "action_valid": torch.ones(rows, ticks, horizon, dtype=torch.bool),
        "outcome": torch.zeros(rows, ticks, 7),
    }
    assert Window(**values).dt.shape == (rows, ticks)
    with pytest.raises(TypeCheckError):
        Window(**{**values, "dt": torch.zeros(rows, ticks + 1)})


def test_where_takes_only_the_rows_named() -> None:
    zeros, ones = (Memory({"tokens": fill}, {"clock": fill[:, 0]}) for fill in (torch.zeros(3, 2), torch.ones(3, 2)))
    mixed = zeros.where(torch.tensor([False, True, False]), ones)
    assert mixed.working["tokens"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert mixed.state["clock"].tolist() == [0, 1, 0]


def test_prefix_pulls_as_much_as_it_weighs() -> None:
    prefix = Prefix(torch.full((1, 3, 2), 4.0), torch.tensor([[1.0, 0.25, 0.0]]))
    assert prefix.pull(torch.zeros(1, 3, 2))[0, :, 0].tolist() == [4.0, 1.0, 0.0]
