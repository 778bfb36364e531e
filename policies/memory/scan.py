"""Linear recurrences over time, all ticks at once: h_t = a_t * h_{t-1} + b_t."""

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


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
    return _Scan.apply(decay, drive, initial, valid.view(mask), is_first.view(mask))


def hold(
    values: Tensor, initial: Tensor, valid: Bool[Tensor, "B T"], is_first: Bool[Tensor, "B T"]
) -> tuple[Tensor, Tensor]:
    """What is held from one tick to the next: the value of the newest valid tick of the episode, zero before any.

    Args:
        values: Of each tick, (B, T, ...).
        initial: Held before the first tick, (B, ...).
        valid: Ticks whose value counts.
        is_first: Ticks at which nothing is held any more.

    Returns:
        Held before each tick, (B, T, ...), and after the last, (B, ...).
    """
    ticks = torch.arange(1, valid.shape[1] + 1, device=valid.device)
    newest, start = (torch.where(mask, ticks, 0).cummax(1).values for mask in (valid, is_first))
    nothing = len(ticks) + 1
    after = torch.where(start > newest, nothing, newest)
    before = torch.where(is_first, nothing, functional.pad(after[:, :-1], (1, 0)))
    source = torch.cat([initial[:, None], values, torch.zeros_like(initial[:, None])], dim=1)
    row = torch.arange(len(source), device=source.device)[:, None] * source.shape[1]
    table = source.flatten(0, 1).flatten(1)  # a look-up copies whole vectors, where `gather` would move single numbers
    held = functional.embedding(before + row, table).view_as(values)
    last = functional.embedding(after[:, -1] + row[:, 0], table).view_as(initial)
    return held, last


class _Scan(torch.autograd.Function):
    """The gradient of a scan is a scan backwards in time, which autograd through its levels would not find."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, drive: Tensor, initial: Tensor, valid: Tensor, is_first: Tensor) -> Tensor:
        decay = torch.where(is_first, 0, torch.where(valid, decay, 1))
        drive = torch.where(valid, drive, 0)
        drive[:, 0] += decay[:, 0] * initial
        states = _prefixes(decay, drive)
        ctx.save_for_backward(decay, states, initial, valid, is_first)
        return states

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - the decorator has another name for it
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None]:
        decay, states, initial, valid, is_first = ctx.saved_tensors
        decay = decay.conj()
        later = torch.cat([torch.zeros_like(decay[:, :1]), decay[:, 1:].flip(1)], dim=1)
        drive = _prefixes(later, gradient.flip(1)).flip(1)
        before = torch.cat([initial[:, None], states[:, :-1]], dim=1)
        to_decay = torch.where(valid & ~is_first, drive * before.conj(), 0).sum_to_size(decay.shape)
        return to_decay, torch.where(valid, drive, 0), decay[:, 0] * drive[:, 0], None, None


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
