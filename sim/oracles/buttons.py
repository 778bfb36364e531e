"""Count blinks, press a button as often, and submit."""

import numpy as np

from robomem.sim.oracles.arm import Arm
from robomem.sim.oracles.primitives import Script, press, wait


def blink_count(arm: Arm) -> Script:
    """BlinkCountButtonPress: as many presses of the red button as the lamp blinked, then the black one."""
    env = arm.env
    red, black = (
        np.array([*xy[0].tolist(), float(top[0])])
        for xy, top in ((env.button_xy, env.button_top_z), (env.confirm_button_xy, env.confirm_button_top_z))
    )
    yield from wait(arm, lambda: bool(env.elapsed_steps[0] >= env.cue_steps_per_env[0]))
    while env.press_count[0] < env.target_blinks[0]:
        raw = int(env.raw_press_count[0])
        yield from press(arm, red, lambda raw=raw: int(env.raw_press_count[0]) > raw)
    yield from press(arm, black, lambda: bool(env.submit_attempted[0]))
