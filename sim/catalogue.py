"""What tasks there are, and what each asks to remember; read without a simulator."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SHORT, MEDIUM = 200, 601
"""Longest horizons of the splits, in steps."""
SPLITS = ("short", "medium", "long")


@dataclass(frozen=True)
class TaskCard:
    """A published task."""

    env_id: str
    memory: str
    """Kind of memory that the benchmark files it under: object, spatial, temporal, ..."""
    horizon: int
    """Steps of 0.05 s until an episode ends."""

    @property
    def split(self) -> str:
        """`short`, `medium` or `long`."""
        return "short" if self.horizon <= SHORT else "medium" if self.horizon <= MEDIUM else "long"


@cache
def mikasa_vla() -> tuple[TaskCard, ...]:
    """The 90 canonical tasks of MIKASA-Robo-VLA 1.0.0."""
    import yaml

    kinds: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("mikasa_vla.yaml").read_text())
    return tuple(
        TaskCard(f"{name}-VLA-v0", memory, horizon)
        for memory, tasks in kinds.items()
        for name, horizon in tasks.items()
    )
