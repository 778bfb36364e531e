"""From a configuration to a policy."""

from collections.abc import Mapping
from typing import Any

from robomem.errors import RobomemError, nearest
from robomem.factory import check_kinds, instantiate
from robomem.policies.heads.base import Head
from robomem.policies.heads.generative import Generative
from robomem.policies.heads.pointer import Pointer
from robomem.policies.policy import MemoryPolicy
from robomem.policies.verification import SelfVerifyingPolicy
from robomem.spec import PolicySpec
from robomem.statistics import Statistics

KEYS = ("name", "horizon", "encoder", "memory", "head", "outcome_weight", "keyframe_weight")
OPTIONAL = ("past_horizon", "verify_samples")


def build_policy(config: Mapping[str, Any], spec: PolicySpec, statistics: Statistics) -> MemoryPolicy:
    """Build an untrained policy.

    Args:
        config: `name`, `horizon`, `outcome_weight`, `keyframe_weight`, and `encoder`, `memory` and
            `head` with a `_target_` each. `past_horizon` is the number of past actions that the head learns beside the
            future ones, 0 by default; `verify_samples` the number of plans of which that whose past fits best is kept,
            1 by default.
        spec: The contract it is for.
        statistics: Normalisation statistics of its training data.

    Raises:
        RobomemError: a key or a part that does not exist (the nearest that does is named), more past than future, or
            several samples without a past to verify or a head that draws them, or a value that is of no use.
    """
    for key in config:
        if key not in KEYS + OPTIONAL:
            raise RobomemError(f"policy has no setting {key!r}{nearest(key, KEYS + OPTIONAL)}")
    if missing := [key for key in KEYS if config.get(key) is None]:
        raise RobomemError(
            f"policy.{missing[0]} is missing; set it, or choose a whole policy, for example policy=robomem"
        )
    check_kinds("policy", MemoryPolicy, config)
    encoder = instantiate(config["encoder"], spec=spec, statistics=statistics)
    memory = instantiate(config["memory"], layout=encoder.layout)
    pointer = Pointer(encoder.layout, features=encoder.proprio.places, proprio=encoder.proprio.size)
    steps = spec.horizon + _past_horizon(config, spec.horizon)
    head = instantiate(config["head"], context=pointer.context_size, horizon=steps, action=spec.action.size)
    parts: dict[str, Any] = {
        "spec": spec,
        "statistics": statistics,
        "encoder": encoder,
        "memory": memory,
        "pointer": pointer,
        "head": head,
        "outcome_weight": config["outcome_weight"],
        "keyframe_weight": config["keyframe_weight"],
    }
    samples = _verify_samples(config, head)
    return SelfVerifyingPolicy(samples=samples, **parts) if samples > 1 else MemoryPolicy(**parts)


def _past_horizon(config: Mapping[str, Any], horizon: int) -> int:
    past = config.get("past_horizon", 0)
    if type(past) is not int or not 0 <= past <= horizon:
        raise RobomemError(f"policy.past_horizon={past} is not from 0 to policy.horizon={horizon}, as many as are read")
    return past


def _verify_samples(config: Mapping[str, Any], head: Head) -> int:
    samples = config.get("verify_samples", 1)
    if type(samples) is not int or samples < 1:
        raise RobomemError(
            f"policy.verify_samples={samples} must be a whole number from 1 up; 1 plans once and verifies nothing"
        )
    if samples > 1 and not (config.get("past_horizon") and isinstance(head, Generative)):
        raise RobomemError(
            f"policy.verify_samples={samples} compares the past of samples, which needs policy.past_horizon above 0 "
            "and head=diffusion or head=flow_matching; or set policy.verify_samples=1"
        )
    return samples
