"""Embodiments of the simulated robots: names, units, frames and limits of what goes in and out."""

from typing import Any

from robomem.spec import CameraSpec, EmbodimentSpec, VectorSpec

MIKASA = EmbodimentSpec(
    cameras=(
        CameraSpec(name="top", height=128, width=128),
        CameraSpec(name="wrist", height=128, width=128),
    ),
    proprio=VectorSpec(
        names=("x", "y", "z", "roll", "pitch", "yaw", "gripper"),
        units=("m", "m", "m", "rad", "rad", "rad", "m"),
        frame="tool centre point in the world frame, XYZ Euler angles; gripper is the sum of both fingers",
        low=(-2.0, -2.0, -2.0, -3.1416, -3.1416, -3.1416, 0.0),
        high=(2.0, 2.0, 2.0, 3.1416, 3.1416, 3.1416, 0.081),
    ),
    action=VectorSpec(
        names=("x", "y", "z", "rx", "ry", "rz", "gripper"),
        units=("0.1 m", "0.1 m", "0.1 m", "-0.1 rad", "-0.1 rad", "-0.1 rad", "+1 open, -1 closed"),
        frame="pd_ee_delta_pose: change of the tool pose, axes of the robot's root",
        low=(-1.0,) * 7,
        high=(1.0,) * 7,
    ),
    action_dt=0.05,
)
"""The published MIKASA-Robo-VLA contract at 20 Hz; the rotation sign is that of ManiSkill 3.0.1."""


def describe(env: Any) -> EmbodimentSpec:
    """Embodiment of a plain ManiSkill environment: its own cameras, joint positions and native controller."""
    from mani_skill.sensors.camera import Camera

    cameras = tuple(
        CameraSpec(name=name, height=sensor.config.height, width=sensor.config.width)
        for name, sensor in env.scene.sensors.items()
        if isinstance(sensor, Camera)
    )
    joints = tuple(joint.name for joint in env.agent.robot.active_joints)
    limits = env.agent.robot.qlimits[0].cpu().numpy().clip(-1e3, 1e3)
    space = env.single_action_space
    names = tuple(f"{env.agent.control_mode}[{i}]" for i in range(space.shape[0]))
    return EmbodimentSpec(
        cameras=cameras if env.obs_mode == "rgb" else (),
        proprio=VectorSpec(
            names=joints,
            units=("rad or m",) * len(joints),
            frame="joint positions",
            low=tuple(map(float, limits[:, 0])),
            high=tuple(map(float, limits[:, 1])),
        ),
        action=VectorSpec(
            names=names,
            units=("1",) * len(names),
            frame=env.agent.control_mode,
            low=tuple(map(float, space.low)),
            high=tuple(map(float, space.high)),
        ),
        action_dt=1.0 / env.control_freq,
    )
