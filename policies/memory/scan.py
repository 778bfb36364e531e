"""Linear recurrences over time, all ticks at once: h_t = a_t * h_{t-1} + b_t."""

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.autograd.function import once_differentiable


def linear_scan(
    decay: Tensor, drive: Tensor, initial: Tensor, valid: Bool[Tensor, "B T"], is_first: Bool[Tensor, "B T"]
) -> Tensor:
    """Every h_t of h_t = decay_t * h_{t-1} + drive_t, where |decay| <= 1; real or complex.

    Nothing is divided and no logarithm summed, so that long and short decays are equally exact.

    Args:
        decay: (B, T, ...), broadcast against `drive`.
        drive: (B, T, ...).
        initial: h before the first tick, (B, ...).
        valid: Where it is false, h stays as it is.
        is_first: Where it is true, h starts from zero.

    Returns:
        h after each tick, (B, T, ...).
    """
    mask = (*valid.shape, *[1] * (drive.ndim - 2))
    decay = torch.where(valid.view(mask), decay, 1)
    decay = torch.where(is_first.view(mask), 0, decay)
    return _Scan.apply(decay, torch.where(valid.view(mask), drive, 0), initial)


def hold(values: Tensor, initial: Tensor, valid: Bool[Tensor, "B T"], is_first: Bool[Tensor, "B T"]) -> Tensor:
    """Values of each tick or, where it is not valid, of the newest that was (of its episode, else 0): (B, T, ...)."""
    mask = (*valid.shape, *[1] * (values.ndim - 2))
    values = torch.where(valid.view(mask), values, 0)
    ticks = torch.arange(1, valid.shape[1] + 1, device=valid.device)
    newest = torch.where(valid | is_first, ticks, 0).cummax(1).values
    return torch.cat([initial[:, None], values], dim=1).gather(1, newest.view(mask).expand_as(values))


def shift(held: Tensor, initial: Tensor, is_first: Bool[Tensor, "B T"]) -> Tensor:
    """What was held before each tick, zero where an episode starts: (B, T, ...)."""
    before = torch.cat([initial[:, None], held[:, :-1]], dim=1)
    return torch.where(is_first.view(*is_first.shape, *[1] * (held.ndim - 2)), 0, before)


class _Scan(torch.autograd.Function):
    """The gradient of a scan is a scan backwards in time, which autograd through its levels would not find."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, drive: Tensor, initial: Tensor) -> Tensor:
        drive = drive.clone()
        drive[:, 0] += decay[:, 0] * initial
        states = _prefixes(decay, drive)
        ctx.save_for_backward(decay, states, initial)
        return states

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - the decorator has another name for it
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        decay, states, initial = ctx.saved_tensors
        decay = decay.conj()
        later = torch.cat([torch.zeros_like(decay[:, :1]), decay[:, 1:].flip(1)], dim=1)
        drive = _prefixes(later, gradient.flip(1)).flip(1)
        before = torch.cat([initial[:, None], states[:, :-1]], dim=1)
        return (drive * before.conj()).sum_to_size(decay.shape), drive, decay[:, 0] * drive[:, 0]


def _prefixes(decay: Tensor, drive: Tensor) -> Tensor:
    """Scan from zero in log2(T) levels: pairs of ticks are one tick of a scan of half the length."""
    if drive.shape[1] == 1:
        return drive
    first, second = slice(0, drive.shape[1] - 1, 2), slice(1, None, 2)
    pairs = torch.addcmul(drive[:, second], decay[:, second], drive[:, first])
    odd = _prefixes(decay[:, second] * decay[:, first], pairs)
    states = torch.empty_like(drive)
    states[:, 0], states[:, 1::2] = drive[:, 0], odd
    even = slice(2, None, 2)
    states[:, even] = torch.addcmul(drive[:, even], decay[:, even], odd[:, : (drive.shape[1] - 1) // 2])
    return states
