"""How to simulate: which task, on which backends, rendered how."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SimConfig:
    """One environment; hashable, so that a process can keep what it has built for it."""

    env_id: str = "RememberColor3-VLA-v0"
    """Any ManiSkill or MIKASA-Robo-VLA environment id."""
    backend: str = "cpu"
    """`cpu`: one simulation per worker process; `gpu`: one batched simulation in this process."""
    render: str = "exact"
    """`exact`: the published meshes; `lite`: decimated robot meshes, about 7 times faster; `none`: no images."""
    workers: int = 0
    """Worker processes (cpu) or batch size (gpu); 0 means one per core."""
    instruction: str = ""
    """Instruction for environments that have none of their own."""

    def __post_init__(self) -> None:
        """Refuse unknown choices by name."""
        for name, choices in (("backend", ("cpu", "gpu")), ("render", ("exact", "lite", "none"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"sim.{name}={getattr(self, name)!r} is not one of {', '.join(choices)}")
        if self.workers < 0:
            raise ValueError(f"sim.workers={self.workers} must not be negative; 0 means one per core")

    @property
    def renders(self) -> bool:
        """Whether images are produced."""
        return self.render != "none"

    @property
    def render_device(self) -> str:
        """SAPIEN's name of the rendering device."""
        return "cpu" if self.backend == "cpu" else "cuda"


@dataclass(frozen=True)
class Demonstration:
    """Settings of a demonstrator."""

    noise: float = 0.0
    """Standard deviation of the disturbance of the executed motion, in action units. Labels stay clean, so that a
    policy sees how to come back (DART)."""
    noise_steps: int = 8
    """Most moving ticks that are disturbed; the rest of the episode recovers."""
    hold_steps: int = 3
    """Ticks to stay after the first success, so that a policy learns to stay."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("noise", "noise_steps", "hold_steps"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"demonstration.{name}={getattr(self, name)} must be finite and not negative")
