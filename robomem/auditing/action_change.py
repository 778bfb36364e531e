"""How much a policy's plans differ when its memory is tampered with, on the same recorded observations."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from robomem.auditing.interventions import INTERVENTIONS, Donors, make_intervention
from robomem.auditing.replay import replay
from robomem.contract import Policy
from robomem.episode import Episode
from robomem.rollout import Intervention, plan_noise


def action_changes(
    policy: Policy, episodes: Sequence[Episode], donors: Donors, replan_every: int, noise_seed: int
) -> dict[str, float]:
    """Mean absolute difference of planned actions, in action units, by intervention; plans share their noise."""
    plans = {
        name: _plans(policy, episodes, make_intervention(name, donors), replan_every, noise_seed)
        for name in INTERVENTIONS
    }
    return {name: float(np.abs(planned - plans["none"]).mean()) for name, planned in plans.items()}


def _plans(
    policy: Policy, episodes: Sequence[Episode], intervene: Intervention | None, replan_every: int, noise_seed: int
) -> Float[ndarray, "N H A"]:
    """All plans along the episodes."""
    shape = (policy.spec.horizon, policy.spec.action.size)
    chunks = []
    for moment in replay(policy, episodes, intervene):
        if moment.tick % replan_every:
            continue
        number = moment.tick // replan_every
        noise = torch.stack([plan_noise(noise_seed, episodes[row].seed, number, shape) for row in moment.rows])
        with torch.inference_mode():
            chunk = policy.plan(moment.memory, noise.to(moment.observation.proprio.device))
        chunks.append(chunk.actions.float().cpu().numpy())
    return np.concatenate(chunks)
