"""From a configuration to a policy."""

from collections.abc import Mapping
from typing import Any

from robomem.errors import RobomemError, nearest
from robomem.factory import instantiate
from robomem.policies.heads.pointer import Pointer
from robomem.policies.policy import MemoryPolicy
from robomem.spec import PolicySpec
from robomem.statistics import Statistics

KEYS = ("name", "horizon", "encoder", "memory", "head", "outcome_weight", "keyframe_weight")


def build_policy(config: Mapping[str, Any], spec: PolicySpec, statistics: Statistics) -> MemoryPolicy:
    """Build an untrained policy.

    Args:
        config: `name`, `horizon`, `outcome_weight`, `keyframe_weight`, and `encoder`, `memory` and
            `head` with a `_target_` each.
        spec: The contract it is for.
        statistics: Normalisation statistics of its training data.

    Raises:
        RobomemError: a key or a part that does not exist; the nearest that does is named.
    """
    for key in config:
        if key not in KEYS:
            raise RobomemError(f"policy has no setting {key!r}{nearest(key, KEYS)}")
    if missing := [key for key in KEYS if config.get(key) is None]:
        raise RobomemError(f"policy.{missing[0]} is missing; choose one, for example {missing[0]}=<option>")
    encoder = instantiate(config["encoder"], spec=spec, statistics=statistics)
    memory = instantiate(config["memory"], layout=encoder.layout)
    pointer = Pointer(encoder.layout, features=encoder.proprio.places, proprio=encoder.proprio.size)
    head = instantiate(config["head"], context=pointer.context_size, horizon=spec.horizon, action=spec.action.size)
    return MemoryPolicy(
        spec=spec,
        statistics=statistics,
        encoder=encoder,
        memory=memory,
        pointer=pointer,
        head=head,
        outcome_weight=config["outcome_weight"],
        keyframe_weight=config["keyframe_weight"],
    )
