"""Motions that scripts are composed of. Each yields actions (7,) until what it is for has come about.

A script is a generator: `yield from press(...)` goes on where the button has been pressed. Every motion is closed
loop, so that a disturbed arm comes back.
"""

from collections.abc import Callable, Generator

import numpy as np

from robomem.sim.oracles.arm import CLOSED, HALF, OPEN, Arm

Script = Generator[np.ndarray, None, None]
Place = np.ndarray | Callable[[], np.ndarray]
"""A point (3,) in the world frame in metres, or one that moves."""

HOVER = 0.07
"""Metres above things that are to be passed over."""
LIFT = 0.13
"""Metres that a button asks the tool to rise after it was pressed."""
GRASP_TICKS = 4
"""Ticks that the fingers take to close."""


def up(metres: float) -> np.ndarray:
    """The offset (3,) straight up."""
    return np.array([0, 0, metres])


def wait(arm: Arm, until: Callable[[], bool], gripper: float = HALF) -> Script:
    """Hold still until a condition holds."""
    while not until():
        yield arm.hold(gripper)


def hold(arm: Arm, ticks: int, gripper: float = HALF) -> Script:
    """Hold still for some ticks."""
    for _ in range(ticks):
        yield arm.hold(gripper)


def move(
    arm: Arm, goal: Place, *, gripper: float = CLOSED, within: float = 0.01, static: bool = False, ticks: int = 60
) -> Script:
    """Straight to a point, until the tool is there (and still, with `static`) or after so many ticks."""
    for _ in range(ticks):
        if arm.distance(_now(goal)) <= within and (arm.static or not static):
            return
        yield arm.towards(_now(goal), gripper)


def above(arm: Arm, goal: Place, *, gripper: float = CLOSED, height: float = HOVER, within: float = 0.015) -> Script:
    """Over a point, at a height where nothing on the table is brushed."""
    yield from move(arm, lambda: _now(goal) + up(height), gripper=gripper, within=within)


def press(arm: Arm, button: np.ndarray, pressed: Callable[[], bool], *, travel: float = 0.03) -> Script:
    """Press a button from above until the task has seen it, then let go and rise.

    Args:
        arm: The arm.
        button: (3,) centre of the top of the unpressed button.
        pressed: Whether the task has noticed.
        travel: Metres to go below the top.
    """
    yield from above(arm, button)
    for _ in range(30):
        if pressed():
            break
        yield arm.towards(button - up(travel))
    yield from move(arm, button + up(LIFT))


def grasp(arm: Arm, thing: Place, *, height: float = HOVER, lift: float = 0.15) -> Script:
    """Grasp a thing from above, by its centre, and lift it."""
    yield from above(arm, thing, gripper=OPEN, height=height)
    yield from move(arm, thing, gripper=OPEN, within=0.008)
    bottom = arm.position
    for _ in range(GRASP_TICKS):
        yield arm.towards(bottom, CLOSED)
    yield from move(arm, bottom + up(lift))


def place(arm: Arm, goal: np.ndarray, *, height: float = HOVER, lift: float = 0.1) -> Script:
    """Carry what is grasped over a point, put it down there (the tool's own position then) and rise."""
    yield from above(arm, goal, height=height)
    yield from move(arm, goal)
    yield from hold(arm, GRASP_TICKS, OPEN)
    yield from move(arm, goal + up(lift), gripper=OPEN)


def _now(place: Place) -> np.ndarray:
    return place() if callable(place) else place
