"""One-time preparation of a process that simulates: isolation, threads and the renderer."""

import functools
import gc
import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

from robomem.errors import RobomemError
from robomem.sim.config import SimConfig
from robomem.sim.vulkan import check_vulkan


@functools.cache
def prepare(config: SimConfig) -> ModuleType:
    """Import the simulator and the published suite in this process and return `gymnasium`.

    TensorFlow is kept out (its LLVM symbols crash a software Vulkan driver), and one `RenderSystem` stays alive for
    the life of the process: every new one compiles its shaders for seconds, and without any each material of a scene
    opens the driver anew, even where nothing is rendered.

    Raises:
        RobomemError: no usable Vulkan driver, or TensorFlow is loaded already.
    """
    _keep_tensorflow_out()
    import gymnasium
    import sapien
    import torch

    for module in (
        "mani_skill.envs",
        "mikasa_robo_suite.vla.memory_envs",
        "mikasa_robo_suite.vla.utils.apply_wrappers",
    ):
        importlib.import_module(module)  # registers environments, defines wrappers
    torch.set_num_threads(1)
    _forward_attributes(gymnasium.Wrapper)
    _keep_alive.append(_render_system(sapien, config.render_device))
    gc.collect()
    gc.freeze()  # ManiSkill collects garbage with every scene; looking through the imported modules takes 0.1 s
    return gymnasium


_keep_alive: list[Any] = []


def _render_system(sapien: Any, device: str) -> Any:
    try:
        return sapien.render.RenderSystem(sapien.Device(device))
    except RuntimeError as error:
        check_vulkan()  # names the cause, where it is the driver
        raise RobomemError(f"SAPIEN cannot render on {device!r}: {error}") from error


def _keep_tensorflow_out() -> None:
    if sys.modules.get("tensorflow") is not None:
        raise RobomemError("TensorFlow is loaded in a simulation process; read RLDS data in a process of its own")
    sys.modules["tensorflow"] = None  # type: ignore[assignment]


def _forward_attributes(wrapper: type) -> None:
    """Let the suite's own wrappers reach attributes of what they wrap, as gymnasium did before 1.0."""

    def forward(self: Any, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)

    for cls in _subclasses(wrapper):
        if inspect.getmodule(cls).__name__.split(".")[0] in ("mikasa_robo_suite", "baselines"):  # type: ignore[union-attr]
            cls.__getattr__ = forward


def _subclasses(cls: type) -> set[type]:
    return {sub for direct in cls.__subclasses__() for sub in {direct, *_subclasses(direct)}}
