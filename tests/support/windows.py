"""Random windows for the product's own policies, and the memory after them, as on a robot. B rows, T ticks."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from robomem.contract import Memory, Observation, Policy, Window, reset
from robomem.sim.embodiment import MIKASA
from robomem.spec import CameraSpec

B, T, H = 3, 6, 4
CAMERAS = tuple(CameraSpec(name=camera.name, height=32, width=32) for camera in MIKASA.cameras)
EMBODIMENT = replace(MIKASA, cameras=CAMERAS)
P, A = MIKASA.proprio.size, MIKASA.action.size


def make_window(seed: int, *, first: bool, horizon: int = H) -> Window:
    """Random ticks; row 1 ends early, and in row 2 an episode begins inside the window."""
    draw = torch.Generator().manual_seed(seed)
    valid, is_first = torch.ones(B, T, dtype=torch.bool), torch.zeros(B, T, dtype=torch.bool)
    valid[1, 4:] = False
    is_first[2, 3] = True
    is_first[:, 0] = first
    images = {c.name: torch.randint(256, (B, T, 32, 32, 3), generator=draw, dtype=torch.uint8) for c in CAMERAS}
    instruction = tuple(f"touch the {colour} cube" for colour in ("red", "green", "blue") for _ in range(T))
    return Window(
        observation=Observation(images, torch.randn(B, T, P, generator=draw), instruction),
        dt=torch.where(is_first, 0.0, 0.02 + 0.2 * torch.rand(B, T, generator=draw)),
        is_first=is_first,
        valid=valid,
        actions=torch.randn(B, T, horizon, A, generator=draw).clamp(-1, 1),
        previous_action=torch.randn(B, T, A, generator=draw).clamp(-1, 1),
        past_actions=torch.randn(B, T, horizon, A, generator=draw).clamp(-1, 1),
        past_valid=valid[..., None] & (torch.rand(B, T, horizon, generator=draw) > 0.2),
        action_valid=valid[..., None].expand(B, T, horizon).clone(),
        outcome=torch.randn(B, T, P, generator=draw),
    )


def windows(horizon: int = H) -> list[Window]:
    """The beginning of episodes, and how they go on."""
    return [make_window(1, first=True, horizon=horizon), make_window(2, first=False, horizon=horizon)]


def tick_of(window: Window, tick: int) -> Observation:
    """What is observed at one tick."""
    images = {name: image[:, tick] for name, image in window.observation.images.items()}
    return Observation(images, window.observation.proprio[:, tick], window.observation.instruction[tick::T])


def observed(policy: Policy, memory: Memory, window: Window) -> Memory:
    """The memory after a window, tick by tick as on a robot."""
    for tick in range(T):
        memory = reset(policy, memory, window.is_first[:, tick])
        after = policy.observe(memory, tick_of(window, tick), window.dt[:, tick])
        memory = memory.where(window.valid[:, tick], after)
    return memory


def assert_close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """The same tensors under the same names."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4, msg=name)


def assert_trained_as_acted(policy: Policy, pieces: list[Window]) -> None:
    """Training makes the same memory of windows as acting does, and its losses are finite."""
    trained = acted = policy.init_memory(B)
    with torch.no_grad():
        for window in pieces:
            losses, trained = policy.loss(window, trained)
            acted = observed(policy, acted, window)
            assert all(value.isfinite() for value in losses.values())
            assert_close(trained.state, acted.state)
            live = window.valid[:, -1]
            newest, seen = ({k: v[live] for k, v in memory.working.items()} for memory in (trained, acted))
            assert_close(newest, seen)


def untaught(policy: Policy, pieces: list[Window]) -> list[str]:
    """Names of the parameters that get no gradient from windows in a row."""
    memory, total = policy.init_memory(B), torch.zeros(())
    for window in pieces:
        losses, memory = policy.loss(window, memory)
        total = total + torch.stack(list(losses.values())).sum()
    total.backward()
    assert isinstance(policy, torch.nn.Module)
    return [name for name, p in policy.named_parameters() if p.grad is None or not p.grad.any()]
