"""Linear recurrences over time: exact at any length and any decay, in both directions."""

import pytest
import torch
from torch import Tensor

from robomem.policies.memory.scan import hold, linear_scan

DECAYS = torch.tensor([0.0, 1e-30, 1e-4, 0.5, 0.9, 0.999, 1 - 1e-6, 1.0])


def by_loop(decay: Tensor, drive: Tensor, state: Tensor, valid: Tensor, is_first: Tensor) -> Tensor:
    """The definition of `linear_scan`."""
    states = []
    for t in range(drive.shape[1]):
        state = torch.where(is_first[:, t, None], 0, state)
        state = torch.where(valid[:, t, None], decay[:, t] * state + drive[:, t], state)
        states.append(state)
    return torch.stack(states, dim=1)


def draw(ticks: int, dtype: torch.dtype, rows: int = 2, channels: int = 3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(ticks)
    decay = DECAYS[torch.randint(len(DECAYS), (rows, ticks, channels), generator=generator)].to(dtype)
    if dtype.is_complex:
        decay = decay * torch.polar(torch.ones(ticks, channels), torch.randn(ticks, channels, generator=generator))
    drive = torch.randn(rows, ticks, channels, generator=generator, dtype=dtype)
    initial = torch.randn(rows, channels, generator=generator, dtype=dtype)
    valid = torch.rand(rows, ticks, generator=generator) > 0.2
    is_first = torch.rand(rows, ticks, generator=generator) < 0.02
    return decay, drive, initial, valid, is_first


@pytest.mark.parametrize("ticks", [1, 2, 3, 8, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_scan_and_its_gradients_are_those_of_a_loop(ticks: int, dtype: torch.dtype) -> None:
    """Against double precision, so that an error of the scan does not hide in that of the loop."""
    *drawn, valid, is_first = draw(ticks, dtype)
    double = torch.complex128 if dtype.is_complex else torch.float64
    exact = decay, drive, initial = [value.to(double).requires_grad_() for value in drawn]
    expected = by_loop(decay, drive, initial, valid, is_first)
    values = decay, drive, initial = [value.requires_grad_() for value in drawn]
    states = linear_scan(decay, drive, initial, valid, is_first)
    torch.testing.assert_close(states, expected.to(dtype), rtol=1e-5, atol=1e-4)
    weight = torch.randn_like(expected)
    states.backward(weight.to(dtype))
    expected.backward(weight)
    for found, true in zip(values, exact, strict=True):
        assert found.grad is not None
        assert true.grad is not None
        torch.testing.assert_close(found.grad, true.grad.to(dtype), rtol=1e-4, atol=1e-3)


def test_decay_may_be_shared_by_channels() -> None:
    decay, drive, initial, valid, is_first = draw(9, torch.float32)
    shared = decay[..., :1].clone().requires_grad_()
    expanded = decay[..., :1].expand_as(drive).clone().requires_grad_()
    states = [linear_scan(each, drive, initial, valid, is_first) for each in (shared, expanded)]
    torch.testing.assert_close(*states)
    for each in states:
        each.square().sum().backward()
    assert shared.grad is not None
    assert expanded.grad is not None
    torch.testing.assert_close(shared.grad, expanded.grad.sum(-1, keepdim=True))


def test_what_is_held_is_the_newest_of_the_episode() -> None:
    values = torch.arange(1.0, 7.0)[None, :, None]
    valid = torch.tensor([[False, True, False, False, True, False]])
    is_first = torch.tensor([[False, False, False, True, False, False]])
    initial = torch.tensor([[9.0]])
    before, after = hold(values, initial, valid, is_first)
    assert before.flatten().tolist() == [9, 9, 2, 0, 0, 5]
    assert after.tolist() == [[5]]
    _, after = hold(values[:, :4], initial, valid[:, :4], is_first[:, :4])
    assert after.tolist() == [[0]]
