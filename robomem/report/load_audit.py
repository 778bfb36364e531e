"""Read audits."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robomem.report import commands
from robomem.report.files import Node, read_json
from robomem.report.load_evaluation import CONFIG, EPISODES, count_episodes, interval, read_config
from robomem.report.model import Audit, Intervention, Retained, Trace, Unfinished

AUDIT = "audit.json"


def load_audits(run: Path, config: Mapping[str, Any]) -> Mapping[str, Audit]:
    """Read the audits of a run, by environment id.

    Raises:
        RobomemError: a file is corrupt.
    """
    audits = [_audit(path.parent, run, config) for path in sorted(run.glob(f"audit/*/{AUDIT}"))]
    return {audit.env_id: audit for audit in audits}


def load_unfinished_audits(run: Path, config: Mapping[str, Any]) -> Mapping[str, Unfinished]:
    """Audits that were begun, by environment id.

    Raises:
        RobomemError: a file is corrupt.
    """
    folders = (path.parent for path in sorted(run.glob(f"audit/*/{CONFIG}")))
    begun = [_unfinished(folder, run, config) for folder in folders if not (folder / AUDIT).exists()]
    return {unfinished.env_id: unfinished for unfinished in begun}


def _unfinished(folder: Path, run: Path, config: Mapping[str, Any]) -> Unfinished:
    recorded = _recorded(folder, run, config)
    command = commands.audit(run, folder.name, config, recorded.mapping())
    episodes = count_episodes(folder / EPISODES, f"delete it and audit again: {command}")
    return Unfinished(recorded.get("env_id").text(), recorded.get("policy").text(), episodes, command)


def _recorded(folder: Path, run: Path, config: Mapping[str, Any]) -> Node:
    return read_config(folder, f"delete {folder} and audit again: {commands.audit(run, folder.name, config)}")


def _audit(folder: Path, run: Path, config: Mapping[str, Any]) -> Audit:
    recorded = _recorded(folder, run, config).mapping()
    fix = f"delete it and audit again: {commands.audit(run, folder.name, config, recorded)}"
    node = read_json(folder / AUDIT, fix)
    trace, episodes = node.find("trace"), node.find("episodes")
    told = recorded | ({"episodes": episodes.whole()} if episodes else {})
    return Audit(
        path=folder,
        env_id=node.get("env_id").text(),
        interventions=tuple(_intervention(name, entry) for name, entry in node.get("interventions").items()),
        gradients={name: norm.number() for name, norm in node.get("gradients").items()},
        dead_parameters=tuple(name.text() for name in node.get("dead_parameters").rows()),
        retention=tuple(_retained(row) for row in node.get("retention").rows()),
        verdict=node.get("verdict").text(),
        reasons=tuple(reason.text() for reason in node.get("reasons").rows()),
        trace=_trace(trace) if trace else None,
        frames=_frames(folder / "trace"),
        command=commands.audit(run, folder.name, config, told),
    )


def _intervention(name: str, node: Node) -> Intervention:
    choice = node.find("first_choice")
    return Intervention(
        name=name,
        success_once=interval(node.get("success_once")),
        first_choice=interval(choice) if choice else None,
        action_change=node.get("action_change").number(),
    )


def _retained(node: Node) -> Retained:
    seen = node.find("from_observation")
    return Retained(
        ticks=node.get("ticks_after_cue").whole(),
        episodes=node.get("episodes").whole(),
        accuracy=node.get("accuracy").number(),
        low=node.get("low").number(),
        high=node.get("high").number(),
        chance=node.get("chance").number(),
        from_observation=seen.number() if seen else None,
    )


def _trace(node: Node) -> Trace:
    trace = Trace(
        seed=node.get("seed").whole(),
        ticks=tuple(tick.whole() for tick in node.get("ticks").rows()),
        attention=_table(node.find("attention")),
        age=_table(node.find("age")),
        gate=tuple(_cell(value) for value in _rows(node.find("gate"))),
    )
    for name in ("attention", "age", "gate"):
        if len(getattr(trace, name)) not in (0, len(trace.ticks)):
            raise node.error(f"has {len(getattr(trace, name))} rows of {name} for {len(trace.ticks)} ticks")
    if trace.age and trace.attention and list(map(len, trace.age)) != list(map(len, trace.attention)):
        raise node.error("has ages of other entries than attention")
    return trace


def _rows(node: Node | None) -> list[Node]:
    return node.rows() if node else []


def _table(node: Node | None) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(_cell(value) for value in row.rows()) for row in _rows(node))


def _cell(node: Node) -> float:
    """A number; NaN where the memory entry was empty."""
    return float("nan") if node.value is None else node.any_number()


def _frames(folder: Path) -> Mapping[int, Path]:
    found = ((re.fullmatch(r"frame-(\d+)", path.stem), path) for path in sorted(folder.glob("frame-*.png")))
    return {int(match[1]): path for match, path in found if match}
