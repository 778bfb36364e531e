"""Read evaluations."""

import re
from collections.abc import Mapping
from pathlib import Path

from robomem.report import commands
from robomem.report.files import Node, read_json, read_lines
from robomem.report.model import Episode, Evaluation, Interval, Latency, Unfinished

SUMMARY, EPISODES, CONFIG = "summary.json", "episodes.jsonl", "config.json"


def load_evaluations(run: Path) -> Mapping[str, Evaluation]:
    """Read the evaluations of a run, of a baseline, or the one that the directory itself is, by environment id.

    Raises:
        RobomemError: a file is corrupt.
    """
    return {e.env_id: e for e in (_evaluation(folder, run) for folder in _folders(run, SUMMARY))}


def load_unfinished_evaluations(run: Path) -> Mapping[str, Unfinished]:
    """Evaluations with results but without a summary, by environment id.

    Raises:
        RobomemError: a file is corrupt.
    """
    folders = (folder for folder in _folders(run, EPISODES) if not (folder / SUMMARY).exists())
    return {u.env_id: u for u in (_unfinished(folder, run) for folder in folders)}


def _folders(run: Path, name: str) -> list[Path]:
    """Folders of evaluations that hold a file: the run's own, or the one that the directory itself is."""
    return [path.parent for pattern in ("", "*/", "eval/*/") for path in sorted(run.glob(pattern + name))]


def interval(node: Node) -> Interval:
    """A proportion with its Wilson interval."""
    count, episodes = (node.get(key).whole() for key in ("count", "episodes"))
    rate, low, high = (node.get(key).number() for key in ("rate", "low", "high"))
    return Interval(count, episodes, rate, low, high)


def count_episodes(path: Path, fix: str) -> int:
    """Results in a file that may be missing."""
    return len(read_lines(path, fix)) if path.exists() else 0


def read_config(folder: Path, fix: str) -> Node:
    """What records were made with, where they say it."""
    path = folder / CONFIG
    return read_json(path, fix) if path.exists() else Node({}, path, fix)


def _config(folder: Path, run: Path) -> Node:
    return read_config(folder, f"delete {folder} and evaluate again: {commands.evaluate(run, _task(folder), folder)}")


def _task(folder: Path) -> str:
    """The environment id where no file says it."""
    return folder.name if folder.parent.name == "eval" else "ENV_ID"


def _command(config: Node, folder: Path, run: Path) -> str:
    """What goes on with an evaluation."""
    env_id = config.find("env_id")
    return commands.evaluate(run, env_id.text() if env_id else _task(folder), folder, config.mapping())


def _unfinished(folder: Path, run: Path) -> Unfinished:
    config = _config(folder, run)
    command = _command(config, folder, run)
    episodes = count_episodes(folder / EPISODES, f"delete it and evaluate again: {command}")
    return Unfinished(config.get("env_id").text(), config.get("policy").text(), episodes, command)


def _evaluation(path: Path, run: Path) -> Evaluation:
    config = _config(path, run)
    fix = f"delete it and evaluate again: {_command(config, path, run)}"
    node = read_json(path / SUMMARY, fix)
    chance, choice, versions = node.find("chance"), node.find("first_choice"), node.find("versions")
    instruction = node.find("instruction") or config.find("instruction")
    start, count = node.get("start_seed").whole(), node.get("episodes").whole()
    checkpoint, digest = node.find("checkpoint"), node.find("deterministic_digest")
    env_id = node.get("env_id").text()
    return Evaluation(
        path=path,
        env_id=env_id,
        policy=node.get("policy").text(),
        checkpoint=checkpoint.text() if checkpoint else "",
        render=node.get("render").text(),
        backend=node.get("backend").text(),
        start_seed=start,
        episodes=count,
        success_once=interval(node.get("success_once")),
        success_at_end=interval(node.get("success_at_end")),
        first_choice=interval(choice) if choice else None,
        mean_return=node.get("mean_return").number(),
        mean_steps=node.get("mean_steps").number(),
        latency=_latency(node.get("latency_ms")),
        versions={name: str(version.value) for name, version in versions.items()} if versions else {},
        digest=digest.text() if digest else "",
        command=commands.evaluate(run, env_id, path, {**config.mapping(), "episodes": count}),
        chance=chance.number() if chance else None,
        instruction=instruction.text() if instruction else "",
        config=config.mapping(),
        records=_episodes(path / EPISODES, range(start, start + count), fix),
        videos=_videos(path / "videos"),
    )


def _latency(node: Node) -> Latency:
    values = (node.find(key) for key in ("observe_p50", "observe_p99", "plan_p50", "plan_p99"))
    return Latency(*(value.number() if value else None for value in values))


def _episodes(path: Path, seeds: range, fix: str) -> tuple[Episode, ...]:
    """Those that the summary counts: the file may hold more, from a longer evaluation before."""
    if not path.exists():
        return ()
    episodes = (_episode(line) for line in read_lines(path, fix))
    return tuple(sorted((e for e in episodes if e.seed in seeds), key=lambda episode: episode.seed))


def _episode(line: Node) -> Episode:
    choice = line.find("first_choice")
    return Episode(
        seed=line.get("seed").whole(),
        success_once=line.get("success_once").flag(),
        success_at_end=line.get("success_at_end").flag(),
        first_choice=choice.whole() if choice else 0,
        total_return=line.get("return").number(),
        steps=line.get("steps").whole(),
    )


def _videos(folder: Path) -> Mapping[int, Path]:
    return {int(p.stem): p for p in sorted(folder.glob("*.mp4")) if re.fullmatch(r"\d+", p.stem)}
