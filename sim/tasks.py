"""Build an environment by id: the published suite through its own wrappers, any other ManiSkill id as it is."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robomem.errors import RobomemError
from robomem.sim.config import SimConfig
from robomem.sim.embodiment import MIKASA, describe
from robomem.spec import EmbodimentSpec

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A built environment and how to read it."""

    env: Any
    """The gymnasium environment, wrapped."""
    embodiment: EmbodimentSpec
    horizon: int
    """Steps until truncation."""
    read: Callable[[Any], Arrays]
    """Raw observation to arrays by name: each camera (N, Y, X, 3) uint8 and `proprio` (N, P) float32."""

    def instructions(self, info: Mapping[str, Any], fallback: str) -> tuple[str, ...]:
        """One instruction per row, from the environment or else from the configuration."""
        text = info.get("language_instruction") or getattr(self.env.unwrapped, "LANGUAGE_INSTRUCTION", None)
        if isinstance(text, list | tuple):
            return tuple(text)
        return (text or fallback or _words(self.env.unwrapped.spec.id),) * self.env.unwrapped.num_envs


def build(gym: Any, config: SimConfig, num_envs: int) -> Task:
    """Build the environment of a configuration.

    Raises:
        RobomemError: an unknown id (the nearest is suggested) or one with missing assets.
    """
    from mani_skill.utils.registration import REGISTERED_ENVS
    from mikasa_robo_suite.vla.utils.apply_wrappers import MIKASA_VLA_ENV_IDS

    if config.env_id not in REGISTERED_ENVS:
        raise unknown("environment", config.env_id, REGISTERED_ENVS)
    published = config.env_id in MIKASA_VLA_ENV_IDS
    env = gym.make(
        config.env_id,
        num_envs=num_envs,
        obs_mode="rgb" if config.renders else "state",
        control_mode="pd_ee_delta_pose" if published else None,
        reward_mode="normalized_dense" if published else None,
        render_mode="all" if config.renders else None,
        sim_backend=config.backend,
        render_backend=config.render_device if config.renders else "none",
    )
    return _published(env) if published else _plain(env)


def _published(env: Any) -> Task:
    from mikasa_robo_suite.vla.utils.apply_wrappers import apply_mikasa_vla_wrappers

    if env.unwrapped.obs_mode == "state":
        return Task(env, MIKASA, env.get_wrapper_attr("_max_episode_steps"), lambda _: {})
    wrapped = apply_mikasa_vla_wrappers(env, include_overlays=False)

    def read(obs: Any) -> Arrays:
        rgb = obs["rgb"].cpu().numpy()
        return {"top": rgb[..., :3], "wrist": rgb[..., 3:], "proprio": obs["proprio"].cpu().numpy()}

    return Task(wrapped, MIKASA, wrapped.get_wrapper_attr("max_episode_steps"), read)


def _plain(env: Any) -> Task:
    horizon = env.get_wrapper_attr("_max_episode_steps")
    if horizon is None:
        raise RobomemError(f"{env.unwrapped.spec.id} has no step limit; register it with max_episode_steps")
    embodiment = describe(env.unwrapped)

    def read(obs: Any) -> Arrays:
        images = {c.name: obs["sensor_data"][c.name]["rgb"].cpu().numpy() for c in embodiment.cameras}
        return {**images, "proprio": obs["agent"]["qpos"].cpu().numpy().astype(np.float32)}

    return Task(env, embodiment, horizon, read if embodiment.cameras else lambda _: {})


def unknown(kind: str, name: str, known: Any) -> RobomemError:
    """An error that suggests the nearest known name."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return RobomemError(f"unknown {kind} {name!r}{hint}")


def _words(env_id: str) -> str:
    """`PickCube-v1` -> `pick cube`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", env_id.split("-")[0]).lower()
