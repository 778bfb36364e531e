"""The list of damages: what was done, what must be found, and which episodes cannot be had back."""

from dataclasses import replace

import numpy as np
from damage import (
    D0,
    D1,
    D2,
    E0,
    E1,
    E2,
    SMALL_PNG,
    TOP,
    WRIST,
    all_recorded,
    both,
    clip,
    cut,
    damage,
    document,
    edited,
    entry,
    flip,
    flip_page,
    images,
    kill_writer,
    other_robot,
    recorded,
    remove,
    rows,
    shift,
    smooth_episode,
    stand_still,
    swap,
    swap_files,
    text,
    times,
    values,
)

from robomem.datasets import lerobot_format as form

FIRST = (0, 1, 2, 3)
"""Episodes of the first data file."""
TABLE = form.EPISODES
CAMERA = "observation.images.top"
LOST_FRAMES = [("damaged-frames", episode) for episode in FIRST]

FILES = [
    damage("data cut at the start", cut(D0, 0.01), ("unfinished-file", D0), lost=FIRST),
    damage("data cut in the middle", cut(D0, 0.5), ("unfinished-file", D0), lost=FIRST),
    damage("data cut at the end", cut(D0, 0.99), ("unfinished-file", D0), lost=FIRST),
    damage("data empty", cut(D1, 0), ("unfinished-file", D1), lost=[4]),
    damage("data missing, first file", remove(D0), ("missing-file", D0), lost=FIRST),
    damage("data missing, last file", remove(D2), ("missing-file", D2), lost=[5]),
    damage("data of another robot", other_robot, ("wrong-columns", D1), lost=[4]),
    damage("bit of an action", flip_page(D0, 2, "action"), ("damaged-rows", 2), lost=[2]),
    damage("bit of a frame", flip_page(D0, 1, "observation.images.top"), ("damaged-rows", 1), lost=[1]),
    damage("bit of an episode's number", flip_page(D0, 3, "episode_index"), ("damaged-rows", 3), lost=[3]),
    damage("bit of a footer", flip(D1, -8), ("damaged-file", D1), lost=[4]),
    damage("table cut", cut(E0, 0.7), ("unfinished-file", E0)),
    damage("table's bit", flip_page(E0, 0, "length"), ("damaged-file", E0)),
    damage("table missing, first file", remove(E0), ("missing-file", E0)),
    damage("table missing, last file", remove(E2), ("wrong-table", 5)),
    damage("table missing, all of it", remove(TABLE), ("missing-file", TABLE)),
    damage("info missing", remove(form.INFO), ("missing-file", form.INFO)),
    damage("info cut", cut(form.INFO, 0.6), ("damaged-file", form.INFO)),
    damage("info empty", cut(form.INFO, 0), ("damaged-file", form.INFO)),
    damage("info's bit in a feature", text(form.INFO, b'"action"', b'"actinn"'), ("wrong-info", form.INFO)),
    damage("info's bit in a name", text(form.INFO, b'"q1"', b'"q9"'), ("wrong-info", form.INFO)),
    damage("info's version", document(form.INFO, codebase_version="w3.0"), ("wrong-info", form.INFO)),
    damage("info without features", document(form.INFO, features=None), ("wrong-info", form.INFO)),
    damage("info's path", document(form.INFO, data_path="data/{chunk}"), ("wrong-info", form.INFO)),
    damage("info's episodes", document(form.INFO, total_episodes=9), ("wrong-counts", form.INFO)),
    damage("info's frames", document(form.INFO, total_frames=7), ("wrong-counts", form.INFO)),
    damage("info's fps", document(form.INFO, fps=30), ("wrong-fps", form.INFO)),
    damage("info is a list", edited(form.INFO, lambda data: b"[]"), ("damaged-file", form.INFO)),
    damage("statistics missing", remove(form.STATISTICS), ("missing-file", form.STATISTICS)),
    damage("statistics cut", cut(form.STATISTICS, 0.5), ("damaged-file", form.STATISTICS)),
    damage(
        "statistics of others", document(form.STATISTICS, action={"mean": [0]}), ("wrong-statistics", form.STATISTICS)
    ),
    damage("tasks missing", remove(form.TASKS), ("missing-file", form.TASKS)),
    damage("tasks cut", cut(form.TASKS, 0.5), ("unfinished-file", form.TASKS)),
    damage(
        "tasks and table missing",
        both(remove(form.TASKS), remove(TABLE)),
        ("missing-file", TABLE),
        ("missing-file", form.TASKS),
        *(("no-instruction", n) for n in range(6)),
    ),
    damage("robot missing", remove(form.ROBOMEM), ("no-robot", form.ROBOMEM)),
    damage("robot cut", cut(form.ROBOMEM, 0.3), ("no-robot", form.ROBOMEM)),
    damage("robot without cameras", document(form.ROBOMEM, embodiment={}), ("no-robot", form.ROBOMEM)),
    damage("writer killed", kill_writer, ("uncommitted", form.INFO)),
]

ROWS = [
    damage("columns swapped", rows(D1, swap), ("swapped-columns", 4), lost=[4]),
    damage("length wrong", rows(E0, values("length", entry(1, 39))), ("wrong-table", 1)),
    damage("first row wrong", rows(E0, values("dataset_from_index", entry(3, 7))), ("wrong-table", 3)),
    damage("episode not listed", rows(E0, lambda table: table.slice(0, 3)), ("wrong-table", 3)),
    damage(
        "episode listed twice", rows(E1, values("episode_index", entry(0, 3))), ("wrong-table", 3), ("wrong-table", 4)
    ),
    damage("instruction of another", rows(E1, values("tasks", entry(0, ["stack"]))), ("wrong-tasks", 4)),
    damage("seed lost", rows(E1, values("seed", entry(0, None))), ("wrong-table", 4)),
    damage("row's statistics", rows(E1, values("stats/action/mean", entry(0, [9.0] * 4))), ("wrong-statistics", 4)),
    damage("last rows lost", rows(D1, lambda table: table.slice(0, 33)), ("wrong-rows", 4), lost=[4]),
    damage("first rows lost", rows(D1, lambda table: table.slice(3)), ("wrong-rows", 4), lost=[4]),
    damage("rows in disorder", rows(D0, lambda table: table.take([1, 0]), 2), ("wrong-rows", 2), lost=[2]),
    damage("number of another", rows(D1, values("episode_index", lambda v: [1] * len(v))), ("wrong-number", 4)),
    damage("index wrong", rows(D1, values("index", lambda v: [0] * len(v))), ("wrong-number", 4)),
    damage("no rows", rows(D1, lambda table: table.slice(0, 0)), ("wrong-rows", 4), lost=[4]),
    damage("NaN", rows(D0, values("observation.state", entry(3, [np.nan] * 4)), 2), ("not-finite", 2), lost=[2]),
    damage("infinity", rows(D2, values("action", entry(3, [np.inf] * 4))), ("not-finite", 5), lost=[5]),
    damage("no number", rows(D2, values("action", entry(3, None))), ("damaged-rows", 5), lost=[5]),
    damage("reward missing", rows(D2, values("next.reward", entry(3, None))), ("not-finite", 5), lost=[5]),
    damage(
        "frame not PNG",
        rows(D2, values(CAMERA, entry(9, {"bytes": b"GIF89a", "path": None}))),
        ("damaged-frames", 5),
        lost=[5],
    ),
    damage(
        "frame small",
        rows(D0, values(CAMERA, entry(9, SMALL_PNG))),
        ("damaged-frames", 0),
        lost=[0],
    ),
    damage("frame missing", rows(D1, values(CAMERA, entry(0, None))), ("damaged-frames", 4), lost=[4]),
]

CONTENT = [
    damage("time back", recorded(2, times(lambda t: np.array([*t[:9], t[5], *t[10:]]))), ("time-order", 2), lost=[2]),
    damage("time gap", recorded(2, times(lambda t: t + 0.3 * (np.arange(40) > 20))), ("time-gap", 2)),
    damage("time drifts", recorded(2, times(lambda t: 1.2 * t)), ("time-drift", 2)),
    damage("camera black", recorded(1, images(lambda top, wrist: (0 * top, wrist))), ("black-camera", 1), lost=[1]),
    damage("camera frozen", recorded(1, images(lambda t, w: (t, w[:1].repeat(40, 0)))), ("frozen-camera", 1)),
    damage("camera hangs", recorded(1, images(lambda t, w: (t[[*range(20), *[20] * 20]], w))), ("frozen-camera", 1)),
    damage("cameras swapped", recorded(3, images(lambda top, wrist: (wrist, top))), ("swapped-cameras", 3)),
    damage("colours swapped", recorded(3, images(lambda t, w: (t[..., ::-1].copy(), w))), ("colour-order", 3)),
    damage("actions constant", recorded(5, stand_still), ("constant-actions", 5)),
    damage("actions clipped", recorded(5, clip), ("clipped-actions", 5)),
    damage("actions late", recorded(4, shift(5)), ("shifted-actions", 4)),
    damage("all actions late", all_recorded(lambda n, e: shift(5)(e)), ("shifted-actions", None)),
    damage("no instruction", recorded(0, lambda e: replace(e, instruction=" ")), ("no-instruction", 0)),
    damage("duplicate", recorded(5, lambda e: replace(smooth_episode(1), seed=7)), ("duplicate", 5)),
    damage("half the rate", all_recorded(lambda n, e: times(lambda t: 2 * t)(e)), ("wrong-rate", None)),
]

VIDEO = [
    damage("video cut at the start", cut(TOP, 0.05), ("damaged-file", TOP), *LOST_FRAMES, lost=FIRST),
    damage("video cut in the middle", cut(TOP, 0.7), *LOST_FRAMES[2:], lost=[2, 3]),
    damage("video missing", remove(WRIST), ("missing-file", WRIST), *LOST_FRAMES, lost=FIRST),
    damage("video empty", cut(WRIST, 0), ("damaged-file", WRIST), *LOST_FRAMES, lost=FIRST),
    damage(
        "video is another file",
        edited(TOP, lambda data: b"x" * 5000),
        ("damaged-file", TOP),
        *LOST_FRAMES,
        lost=FIRST,
    ),
    damage("videos swapped", swap_files(TOP, WRIST), *(("swapped-cameras", episode) for episode in FIRST)),
    damage(
        "frames of another",
        rows(E0, values("videos/observation.images.top/to_timestamp", entry(1, 3.0))),
        ("wrong-frames", 1),
        lost=[1],
    ),
    damage("data cut", cut(D0, 0.9), ("unfinished-file", D0), lost=FIRST),
    damage(
        "video table missing",
        remove(TABLE),
        ("missing-file", TABLE),
        *(("wrong-frames", episode) for episode in FIRST),
        lost=FIRST,
    ),
    damage("video info missing", remove(form.INFO), ("missing-file", form.INFO)),
    damage("video fps", document(form.INFO, fps=25), ("wrong-fps", form.INFO)),
    damage("video length", rows(E0, values("length", entry(1, 39))), ("wrong-table", 1)),
    damage("video file's number", rows(E0, values("data/file_index", entry(2, 5))), ("wrong-table", 2)),
    damage("video tasks missing", remove(form.TASKS), ("missing-file", form.TASKS)),
    damage("video statistics", cut(form.STATISTICS, 0.5), ("damaged-file", form.STATISTICS)),
]
