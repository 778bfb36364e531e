"""Does the policy use its memory? Rules over paired episodes, with the reasons in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robomem.intervals import wilson
from robomem.rollout import EpisodeResult

LEVEL = 0.05
"""Chance of a false alarm over all tests together."""
MARGIN = 0.2
"""A share of lost episodes that is surely below this counts as no loss."""
SAME = 1e-6
"""Change of planned actions that counts as none."""
DECISIVE = ("zero", "swap")
"""Interventions that the verdict rests on."""

USES, IGNORES, OPEN = "uses memory", "does not use memory", "inconclusive"


@dataclass(frozen=True)
class Paired:
    """The same seeds without and with an intervention."""

    intervention: str
    outcome: str
    """`success` or `right first choice`."""
    before: int
    """Episodes with the outcome when the memory is left alone."""
    lost: int
    """Of these, those without it under the intervention."""
    gained: int
    episodes: int

    @property
    def p_value(self) -> float:
        """Exact one-sided McNemar test of a loss."""
        if not self.lost:
            return 1.0
        from scipy.stats import binomtest

        return float(binomtest(self.lost, self.lost + self.gained, alternative="greater").pvalue)

    @property
    def most_lost(self) -> float:
        """Upper end of the interval of the share of episodes that lost the outcome."""
        share = wilson(self.lost, self.episodes)
        return share.high if share else 1.0

    def __str__(self) -> str:
        """For a list of reasons."""
        after = self.before - self.lost + self.gained
        return (
            f"{self.intervention}: {self.outcome} {self.before}/{self.episodes} -> {after}/{self.episodes}"
            f" ({self.lost} lost, {self.gained} gained, p = {self.p_value:.2g})"
        )


def compare(results: Mapping[str, Sequence[EpisodeResult]]) -> list[Paired]:
    """Pair the decisive interventions with `none`; choices only where the policy made any."""
    plain = {result.seed: result for result in results["none"]}
    outcomes = {"success": lambda result: result.success_once}
    if any(result.first_choice for result in plain.values()):
        outcomes["right first choice"] = lambda result: result.first_choice == 1
    pairs = []
    for name in DECISIVE:
        changed = {result.seed: result for result in results[name]}
        for outcome, holds in outcomes.items():
            both = [(holds(plain[seed]), holds(changed[seed])) for seed in plain if seed in changed]
            lost, gained = both.count((True, False)), both.count((False, True))
            pairs.append(Paired(name, outcome, sum(before for before, _ in both), lost, gained, len(both)))
    return pairs


def judge(pairs: Sequence[Paired], action_change: Mapping[str, float]) -> tuple[str, list[str]]:
    """The verdict and its reasons.

    - uses memory: an outcome drops significantly under `zero` or `swap` (exact paired test, Bonferroni over all tests);
    - does not use memory: no intervention changes a planned action, or there were outcomes to lose and the share lost
      is surely below `MARGIN` in every test;
    - inconclusive: anything else.
    """
    level = LEVEL / len(pairs)
    reasons = [str(pair) for pair in pairs]
    drops = [pair for pair in pairs if pair.p_value < level]
    if drops:
        names = sorted({pair.intervention for pair in drops})
        reasons.append(f"a significant drop under {' and '.join(names)} (p < {level:.3g})")
        if names == ["zero"]:
            reasons.append("the memory of another episode does as well: what it holds of this one may not matter")
        return USES, reasons
    if max(action_change.values()) <= SAME:
        return IGNORES, [*reasons, "no intervention changes a planned action"]
    if all(pair.most_lost < MARGIN <= pair.before / pair.episodes for pair in pairs):
        return IGNORES, [*reasons, f"with 95 % confidence fewer than {MARGIN:.0%} of episodes lose by any intervention"]
    if not any(pair.before for pair in pairs):
        return OPEN, [*reasons, "the policy succeeds in no episode, so there is nothing to lose; train it further"]
    return OPEN, [*reasons, "no significant drop, and too few episodes to rule one out; set episodes higher"]
