"""Run folders in the formats of the loops, to report on."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import yaml
from PIL import Image

from robomem.files import write_json
from robomem.intervals import wilson

ENV = "RememberColor3-VLA-v0"
START = 4242424242
CAMERAS = [{"name": name, "height": 128, "width": 128} for name in ("top", "wrist")]


def proportion(count: int, episodes: int) -> dict | None:
    found = wilson(count, episodes)
    return found and found.to_dict()


def write_lines(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_video(path: Path, frames: np.ndarray, codec: str = "libx264") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())


def write_evaluation(folder: Path, policy: str, success: list[bool], **extra: object) -> dict:
    rows = [
        {
            "seed": START + i, "success_once": ok, "success_at_end": ok and i % 9 != 0,
            "first_choice": 1 if ok else -1 if i % 4 else 0, "return": 0.8 if ok else 0.2, "steps": 14 if ok else 60,
            "plan_ms": 9.5, "observe_ms": 4.1, "intervention": "none",
        }
        for i, ok in enumerate(success)
    ]  # fmt: skip
    n = len(rows)
    config = {"env_id": ENV, "policy": policy, "render": "exact", "backend": "cpu", "start_seed": START}
    config |= {} if policy == "oracle" else {"replan_every": 2, "noise_seed": 0}
    chosen = [row for row in rows if row["first_choice"]]
    summary = {
        **config,
        "instruction": "Touch the cube of the colour shown.",
        "chance": 1 / 3,
        "checkpoint": f"outputs/train/{policy}/checkpoints/step-00004000",
        "episodes": n,
        "success_once": proportion(sum(success), n),
        "success_at_end": proportion(sum(row["success_at_end"] for row in rows), n),
        "first_choice": proportion(sum(row["first_choice"] == 1 for row in chosen), len(chosen)),
        "mean_return": sum(row["return"] for row in rows) / n,
        "mean_steps": sum(row["steps"] for row in rows) / n,
        "latency_ms": {"observe_p50": 4.1, "observe_p99": 7.9, "plan_p50": 9.4, "plan_p99": 15.2},
        "versions": {"torch": "2.11.0", "mani_skill": "3.0.1"},
        "deterministic_digest": "5f" * 32,
        **extra,
    }
    write_json(folder / "summary.json", summary)
    write_json(folder / "config.json", config)
    write_lines(folder / "episodes.jsonl", rows)
    return summary


def write_audit(folder: Path, rates: dict[str, int], episodes: int, frames: np.ndarray, entries: int, **extra) -> dict:
    ticks = len(frames)
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 0.4, (ticks, entries))
    logits[:, :2] += np.linspace(0, 3.2, ticks)[:, None]
    seen = np.arange(entries) <= np.arange(ticks)[:, None]
    weight = np.where(seen, np.exp(logits), 0)
    weight /= weight.sum(1, keepdims=True)
    age = np.clip((np.arange(ticks)[:, None] - np.arange(entries)) * 0.05, 0, None)
    names = ("query", "key", "value", "output", "gate")
    config = {"env_id": ENV, "policy": "bank", "render": "lite", "replan_every": 2, "donors": 8}
    audit = {
        **config,
        "episodes": episodes,
        "interventions": {
            name: {
                "success_once": proportion(count, episodes),
                "first_choice": proportion(count, episodes),
                "action_change": 0.0 if name == "none" else 0.11 + 0.05 * len(name),
            }
            for name, count in rates.items()
        },
        "gradients": {
            f"memory.{block}.{name}.{kind}": float(10 ** rng.normal(-2, 0.8))
            for block in ("retrieve", "fuse") for name in names for kind in ("weight", "bias")
        },
        "dead_parameters": [],
        "retention": [
            {
                "ticks_after_cue": t, "accuracy": a, "low": a - 0.08, "high": min(1, a + 0.04), "episodes": 50,
                "chance": 1 / 3, "from_observation": min(1, 0.34 + t / 90),
            }
            for t, a in ((0, 1.0), (5, 0.98), (10, 0.97), (20, 0.95), (40, 0.92))
        ],
        "verdict": "uses memory",
        "reasons": ["zero: success 47/50 -> 16/50 (31 lost)", "a significant drop under swap and zero"],
        "trace": {
            "seed": START, "ticks": list(range(ticks)), "attention": weight.tolist(),
            "age": np.where(seen, age, np.array(None)).tolist(),
            "gate": (1 / (1 + np.exp(-np.linspace(-2, 2.5, ticks)))).tolist(),
        },
        **extra,
    }  # fmt: skip
    write_json(folder / "audit.json", audit)
    write_json(folder / "config.json", config)
    (folder / "trace").mkdir(exist_ok=True)
    for tick, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / "trace" / f"frame-{tick:03d}.png")
    return audit


def write_training(run: Path, memory: str, steps: int = 4000, floor: float = 0.02) -> None:
    run.mkdir(parents=True, exist_ok=True)
    module = {"bank": "bank.Bank", "none": "none.NoMemory"}[memory]
    policy = {
        "name": "memory_vla" if memory != "none" else "memoryless",
        "horizon": 8,
        "memory": {"_target_": f"robomem.policies.memory.{module}", "entries": 16},
    }
    config = {"seed": 0, "max_steps": steps, "policy": policy, "data": {"root": f"data/{ENV}"}, "optim": {"lr": 3e-4}}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "overrides.yaml").write_text(yaml.safe_dump(["experiment=quickstart", f"policy={policy['name']}"]))
    write_json(run / "git.json", {"sha": "8a26499c0ffee", "dirty": True, "diff": "--- a/x\n+++ b/x\n-old <b>\n+new\n"})
    rng = np.random.default_rng(sum(run.name.encode()))
    rows = []
    for step in range(20, steps + 1, 20):
        decay = math.exp(-6 * step / steps)
        noise = math.exp(rng.normal(0, 0.15))
        action, recall = (0.4 * decay + floor) * noise, (1.1 * decay + 0.03) * noise
        terms = {"loss/action": action} | ({"loss/recall": recall} if memory != "none" else {})
        rows.append(
            {
                "step": step, "time_s": step * 0.21, "loss": sum(terms.values()), **terms,
                "lr": 3e-4 * min(1, step / 200) * (0.5 + 0.5 * math.cos(math.pi * step / steps)),
                "grad_norm": (1.2 * decay + 0.2) * noise, "frames_per_s": 610 + rng.normal(0, 12),
            }
        )  # fmt: skip
    write_lines(run / "metrics.jsonl", rows)


RATES = {"none": 7, "zero": 3, "shuffle": 3, "freeze": 4, "swap": 2}


def build_runs(root: Path) -> SimpleNamespace:
    """A memory run with everything, its memoryless control without videos or audit, and an oracle."""
    memory, control, oracle = root / "bank", root / "memoryless", root / "oracle"
    write_training(memory, "bank", steps=400)
    write_training(control, "none", steps=400)
    frames = np.random.default_rng(0).integers(0, 255, (12, 32, 64, 3), dtype=np.uint8)
    success = [True] * 6 + [False] * 2
    summaries = {
        "bank": write_evaluation(memory / "eval" / ENV, "memory_vla", success),
        "memoryless": write_evaluation(control / "eval" / ENV, "memoryless", [True, True, *[False] * 5, True]),
        "oracle": write_evaluation(oracle, "oracle", [True] * 8),
    }
    for index in (0, 7):
        write_video(memory / "eval" / ENV / "videos" / f"{START + index}.mp4", frames)
    audit = write_audit(memory / "audit" / ENV, RATES, 8, frames, entries=4)
    write_json(memory / "checkpoints/step-00000400/spec.json", {"cameras": CAMERAS})
    return SimpleNamespace(
        memory=memory, control=control, oracle=oracle, summaries=summaries, audit=audit, out=root / "r.html"
    )
