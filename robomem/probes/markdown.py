"""The table of modules and probes as a Markdown page."""

from collections.abc import Iterable, Mapping, Sequence

from robomem.probes.base import Probe
from robomem.probes.table import Estimate, Row

_INTRODUCTION = (
    "Every number is the mean over seeds and test episodes with its 95% interval. Scores are shares of right answers "
    "or returns; those in seconds are errors, the lower the better. `chance` is what needs no memory."
)


def markdown(table: Sequence[Row], probes: Mapping[str, Probe], picture: str) -> str:
    """One line per module with the headline of every probe, then the conditions of each probe.

    Args:
        table: All rows.
        probes: By name, those that the rows are of.
        picture: File name of the plot.
    """
    parts = ["# Probes", _INTRODUCTION, _overview(table, probes), f"![Scores by condition]({picture})"]
    for name, probe in probes.items():
        mine = [row for row in table if row.probe == name]
        parts += [f"## {name}", probe.title + ".", _scores(mine, probe)]
        if mine[0].measured:
            parts.append(_measured(mine))
    return "\n\n".join(parts) + "\n"


def _overview(table: Sequence[Row], probes: Mapping[str, Probe]) -> str:
    found = {(row.probe, row.module): row for row in table}
    body = [["chance", "", *(_chance(probe) for probe in probes.values())]]
    for module, parameters in {row.module: row.parameters for row in table}.items():
        cells = [
            _score(probe, found[name, module].scores[probe.headline]) if (name, module) in found else ""
            for name, probe in probes.items()
        ]
        body.append([module, f"{parameters:,}", *cells])
    return _grid(["module", "parameters", *(f"{n}: {_unit(p, p.headline)}" for n, p in probes.items())], body)


def _scores(rows: Sequence[Row], probe: Probe) -> str:
    body = [["chance", "", *[_chance(probe)] * len(probe.conditions)]]
    body += [[row.module, str(len(row.seeds)), *(_score(probe, s) for s in row.scores.values())] for row in rows]
    return _grid(["module", "seeds", *(_unit(probe, condition) for condition in probe.conditions)], body)


def _measured(rows: Sequence[Row]) -> str:
    body = [[row.module, *(f"{value:,.4g}" for value in row.measured.values())] for row in rows]
    return _grid(["module", *rows[0].measured], body)


def _score(probe: Probe, score: Estimate) -> str:
    return score.text(4 if probe.unit == "s" else 2)


def _unit(probe: Probe, condition: str) -> str:
    return condition if probe.unit == "success" else f"{condition} ({probe.unit})"


def _chance(probe: Probe) -> str:
    return "" if probe.chance is None else f"{probe.chance:.2f}"


def _grid(heads: Iterable[str], body: Iterable[Sequence[str]]) -> str:
    head = list(heads)
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
