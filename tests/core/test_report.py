"""The report page, from run folders written in the formats of the loops."""

import base64
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from report_runs import ENV, RATES, START, build_runs, write_audit, write_evaluation, write_training, write_video

from robomem.cli import run
from robomem.errors import RobomemError
from robomem.report import media
from robomem.report.audits import gradients_by_module
from robomem.report.load import load_run, memory_name
from robomem.report.media import load_clip
from robomem.report.model import Trace
from robomem.report.page import write_report
from robomem.report.timeline import timeline

VOID = {"meta", "link", "img", "br", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes and the text inside them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.elements, self.open = html, [], []
        self.feed(html)
        assert not self.open, "unclosed elements"

    def handle_starttag(self, tag, attrs):
        element = SimpleNamespace(tag=tag, attrs=dict(attrs), text="", inside=tuple(self.open))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(SimpleNamespace(tag=tag, attrs=dict(attrs), text="", inside=tuple(self.open)))

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, tag: str, **attrs: str) -> list[SimpleNamespace]:
        return [
            e
            for e in self.elements
            if e.tag == tag and all(v in (e.attrs.get(k) or "").split() for k, v in attrs.items())
        ]

    def within(self, outer: SimpleNamespace, tag: str) -> list[SimpleNamespace]:
        return [e for e in self.elements if e.tag == tag and outer in e.inside]


def make(house: SimpleNamespace, *runs: Path, **options: str) -> Page:
    write_report(runs or (house.memory, house.control, house.oracle), house.out, **options)
    return Page(house.out.read_text())


def rows(page: Page, table_class: str) -> list[list[str]]:
    (table,) = page.all("table", **{"class": table_class})
    return [
        [" ".join(cell.text.split()) for cell in page.elements if row in cell.inside and cell.tag in ("td", "th")]
        for row in page.within(table, "tr")
    ]


@pytest.fixture
def house(tmp_path: Path) -> SimpleNamespace:
    """Runs to change."""
    return build_runs(tmp_path)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Runs and their page, to look at."""
    runs = build_runs(tmp_path_factory.mktemp("runs"))
    runs.page = make(runs)
    return runs


def test_table_repeats_the_summaries(shown):
    page = shown.page
    table = {row.attrs["data-run"]: row for row in page.all("tr") if "data-run" in row.attrs}
    assert set(table) == {"bank", "memoryless", "oracle"}
    for name, row in table.items():
        cells = [cell.text for cell in page.within(row, "td")]
        summary = shown.summaries[name]
        for cell, key in zip(cells, ("success_once", "first_choice", "success_at_end"), strict=False):
            found = summary[key]
            numbers = [f"{found['rate']:.2f}", f"{found['count']} of {found['episodes']}"]
            for expected in (*numbers, f"{found['low']:.2f} to {found['high']:.2f}"):
                assert expected in cell
        assert f"{summary['mean_return']:.2f}" in cells[3]
        assert f"{summary['mean_steps']:.1f}" in cells[4]
        assert cells[5].split() == ["4.1", "p99", "7.9"]
        assert cells[6].split() == ["9.4", "p99", "15.2"]


def test_headline_compares_the_same_seeds(shown):
    page = shown.page
    (split,) = page.all("ul", **{"class": "split"})
    assert [int(e.text) for e in page.within(split, "strong")] == [2, 4, 1, 1]
    tiles = " ".join(" ".join(t.text.split()) for t in page.all("div", **{"class": "tile"}))
    # Five discordant pairs, one of them against: p is 2 * (1 + 5) / 2**5.
    for shown_number in ("0.75", " 0.38", "+0.38", "Uses memory", "p = 0.38"):
        assert shown_number in tiles


def test_grid_shows_every_seed_of_every_run(shown):
    page = shown.page
    cells = [e for e in page.all("span", **{"class": "cell"}) if e.attrs.get("role") == "img"]
    assert len(cells) == 3 * 8
    bank = [e.attrs["class"].split()[1] for e in cells[:8]]
    assert bank == ["success"] * 6 + ["wrong"] * 2
    assert cells[6].attrs["title"] == f"Seed {START + 6}: failure, first choice wrong, 60 steps, return 0.20"


def test_page_is_self_contained_and_accessible(shown):
    page = shown.page
    assert not re.search(r"https?:|//[a-z]+\.|@import|<script", page.html)
    for e in page.elements:
        for key in ("src", "href", "poster"):
            value = e.attrs.get(key, "#")
            assert value.startswith(("#", "data:")), value
            assert not value.startswith("#") or value == "#" or value[1:] in {x.attrs.get("id") for x in page.elements}
    ids = [e.attrs["id"] for e in page.elements if "id" in e.attrs]
    assert len(ids) == len(set(ids))
    for svg in page.all("svg"):
        assert svg.attrs["aria-label"]
        assert svg.attrs["role"] == "img"
    for table in page.all("table"):
        assert page.within(table, "caption")
    assert all(e.attrs.get("alt") for e in page.all("img"))
    assert "prefers-color-scheme: dark" in page.html
    assert "@media print" in page.html
    # Colours of the figures come from the page, so that they follow its theme.
    assert not re.search(r"(fill|stroke): #0[0-9a]0", page.html)


def test_videos_are_embedded_whole(shown):
    page = shown.page
    videos = page.all("video")
    assert len(videos) == 2
    for video, seed in zip(videos, (START, START + 7), strict=True):
        assert {"controls", "loop", "muted"} <= set(video.attrs)
        data = base64.b64decode(video.attrs["src"].removeprefix("data:video/mp4;base64,"))
        assert data == (shown.memory / "eval" / ENV / "videos" / f"{seed}.mp4").read_bytes()


def test_video_that_browsers_do_not_play_is_encoded_again(house):
    path = house.memory / "eval" / ENV / "videos" / f"{START}.mp4"
    frames = np.random.default_rng(0).integers(0, 255, (6, 32, 64, 3), dtype=np.uint8)
    write_video(path, frames, codec="mpeg4")
    clip = load_clip(path, "")
    assert clip.is_video
    container: Any = av.open(io.BytesIO(base64.b64decode(clip.uri.partition(",")[2])))
    assert container.streams.video[0].codec_context.name == "h264"
    assert len(list(container.decode(video=0))) == 6


def test_large_video_becomes_a_strip(house, monkeypatch):
    monkeypatch.setattr(media, "LARGEST_VIDEO", 10)
    monkeypatch.setattr(media, "SMALL_VIDEO", 10)
    page = make(house)
    assert not page.all("video")
    strips = page.all("img")
    for picture, seed in zip(strips, (START, START + 7), strict=True):
        assert picture.attrs["src"].startswith("data:image/png;base64,")
        assert f"seed {seed}" in picture.attrs["alt"]


def test_audit_is_shown(shown):
    page = shown.page
    table = rows(page, "interventions")
    assert [row[0].split()[0] for row in table[1:]] == list(RATES)
    for row, name in zip(table[1:], RATES, strict=True):
        entry = shown.audit["interventions"][name]
        assert f"{entry['success_once']['rate']:.2f}" in row[1]
        assert row[3] == f"{entry['action_change']:.3g}"
    text = " ".join(page.html.split())
    for reason in shown.audit["reasons"]:
        assert reason in [" ".join(e.text.split()) for e in page.all("li")]
    assert "No dead parameters" in text
    labels = [svg.attrs["aria-label"] for svg in page.all("svg")]
    assert any("0.92 at 40" in label for label in labels)
    (trace,) = [svg for svg in page.all("svg") if f"Episode of seed {START}" in svg.attrs["aria-label"]]
    inside = page.within(trace, "text")
    assert {"top", "wrist", "gate"} <= {e.text.strip() for e in inside}
    assert len(page.within(trace, "image")) == 2


def test_audit_of_episodes_too_short_for_a_retention_curve_is_shown(house):
    frames = np.zeros((12, 32, 64, 3), dtype=np.uint8)
    write_audit(house.memory / "audit" / ENV, RATES, 8, frames, entries=4, retention=[])
    page = make(house)
    assert "a significant drop under swap and zero" in page.html
    labels = [svg.attrs["aria-label"] for svg in page.all("svg")]
    assert labels
    assert not any("at 40" in label for label in labels)


def test_names_are_escaped(house):
    evil = "<script>alert(1)</script>$x^2$"
    moved = house.memory.with_name(evil.replace("/", "∕"))
    house.memory.rename(moved)
    page = make(house, moved, house.control, title="<img src=x onerror=alert(1)>")
    assert "<script" not in page.html
    assert "<img src=x" not in page.html
    assert "&lt;script&gt;alert(1)" in page.html
    assert page.all("h1")[0].text == "<img src=x onerror=alert(1)>"


def test_missing_parts_say_how_to_make_them(house):
    (house.control / "metrics.jsonl").unlink()
    for folder in (house.control / "eval", house.memory / "audit"):
        shutil.rmtree(folder)
    page = make(house)
    text = " ".join(" ".join(e.text.split()) for e in page.all("p", **{"class": "missing"}))
    command = f"robomem train experiment=quickstart policy=memoryless run_dir={house.control}"
    assert f"Training of memoryless: not run. {command}" in text
    command = f"robomem audit checkpoint={house.memory} dataset=data/{ENV} sim.env_id={ENV}"
    assert f"Audit of bank: not run. {command}" in text
    (row,) = [r for r in page.all("tr") if r.attrs.get("data-run") == "memoryless"]
    assert f"not run: robomem eval checkpoint={house.control} sim.env_id={ENV}" in " ".join(row.text.split())


def test_unfinished_parts_say_how_far_they_are_and_how_to_go_on(house):
    """With the settings that they were begun with: others would be refused."""
    for path in (house.control / "eval" / ENV / "summary.json", house.memory / "audit" / ENV / "audit.json"):
        path.unlink()
    (house.oracle / "summary.json").unlink()
    page = make(house)
    table = {row.attrs["data-run"]: " ".join(row.text.split()) for row in page.all("tr") if "data-run" in row.attrs}
    command = f"robomem eval checkpoint={house.control} sim.env_id={ENV} replan_every=2"
    assert table["memoryless"].endswith(f"unfinished, 8 episodes so far: {command}")
    command = f"robomem eval baseline=oracle sim.env_id={ENV} output_dir={house.oracle}"
    assert table["oracle"].endswith(f"unfinished, 8 episodes so far: {command}")
    audit = f"checkpoint={house.memory} dataset=data/{ENV} sim.env_id={ENV} sim.render=lite replan_every=2"
    text = " ".join(" ".join(e.text.split()) for e in page.all("p", **{"class": "missing"}))
    assert f"Audit of bank: unfinished, 0 episodes so far. robomem audit {audit}" in text


def test_records_alone_make_a_page(house):
    folder = house.control / "eval" / ENV
    (folder / "summary.json").unlink()
    command = f"robomem eval checkpoint=CHECKPOINT sim.env_id={ENV} replan_every=2 output_dir={folder}"
    assert f"unfinished, 8 episodes so far: <code>{command}</code>" in make(house, folder).html


def test_commands_that_repeat_a_measurement_say_its_settings(shown):
    told = [e.text for e in shown.page.all("code")]
    for command in (
        f"robomem eval checkpoint={shown.memory} sim.env_id={ENV} episodes=8 replan_every=2",
        f"robomem eval baseline=oracle sim.env_id={ENV} episodes=8 output_dir={shown.oracle}",
        f"robomem audit checkpoint={shown.memory} dataset=data/{ENV} sim.env_id={ENV} sim.render=lite episodes=8"
        " replan_every=2",
    ):
        assert any(command in text.splitlines() for text in told), command


def test_guessing_is_shown_for_the_first_choice(shown):
    page = shown.page
    assert page.all("p", **{"class": "instruction"})[0].text == "“Touch the cube of the colour shown.”"
    assert [e.text.strip() for e in page.all("text")].count("chance") == 1
    assert "Dashed: a first choice by guessing (0.33)." in page.html


def test_empty_entries_are_blank():
    nan = float("nan")
    ages = ((0.0, nan, nan), (0.5, 0.0, nan))
    trace = Trace(0, (0, 1), attention=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), age=ages, gate=())
    drawn = Page(str(timeline("t", trace, (), {}, "s1").svg))
    cells = [e.attrs["style"] for e in drawn.all("path") if "stroke: var(--card)" in e.attrs.get("style", "")]
    fills = [re.sub(r"; stroke.*|fill: ", "", style) for style in cells]  # by entry, then by tick
    assert fills == ["var(--s1)", "var(--s1); fill-opacity: 0.1", "none", "var(--s1)", "none", "none"]


def test_run_without_any_evaluation(house, tmp_path):
    write_training(tmp_path / "fresh", "bank", steps=40)
    page = make(house, tmp_path / "fresh")
    assert "Evaluation of fresh: not run." in page.html
    assert page.all("svg")


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("eval/ENV/summary.json", "{", "is not JSON"),
        ("eval/ENV/summary.json", '{"start_seed": "3"}', "(start_seed) is '3', not a whole number"),
        ("eval/ENV/episodes.jsonl", '{"seed": 1}\n', "(line 1) has no 'success_once'"),
        ("eval/ENV/episodes.jsonl", '{"seed"\n{"seed": 1}\n', "(line 1) is not JSON"),
        ("eval/ENV/config.json", "{", "is not JSON"),
        ("audit/ENV/audit.json", "[]", "should be a mapping"),
        ("audit/ENV/config.json", "", "is not JSON"),
        ("checkpoints/step-00000400/spec.json", "{}", "has no 'cameras'"),
        ("overrides.yaml", "a: 1", "should be a list"),
        ("metrics.jsonl", '{"step": 1, "loss": "low"}\n', "loss) is 'low', not a number"),
        ("config.yaml", "a: [1", "is not YAML"),
        ("git.json", '{"sha": 1}', "sha) is 1, not text"),
        ("audit/ENV/trace/frame-003.png", "no picture", "is not a readable picture"),
        (f"eval/ENV/videos/{START}.mp4", "no video", "is not a readable video"),
    ],
)
def test_corrupt_file_is_named_with_a_fix(house, file, text, told):
    path = house.memory / file.replace("ENV", ENV)
    path.write_text(text)
    with pytest.raises(RobomemError) as error:
        make(house)
    message = str(error.value)
    assert str(path) in message
    assert told in message
    assert "\n" not in message
    assert re.search(r"; (delete|restore)", message)
    assert not house.out.exists()


def test_torn_last_line_is_left_out(house):
    path = house.memory / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 420, "lo')
    assert load_run(house.memory).metrics["loss"][-1][0] == 400


def test_later_line_of_a_resumed_step_counts(house):
    path = house.memory / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 20, "loss": 7.0}\n')
    assert load_run(house.memory).metrics["loss"][0] == (20, 7.0)


def test_runs_that_differ_are_noted(house):
    write_evaluation(house.control / "eval" / ENV, "memoryless", [True] * 8, render="lite")
    write_evaluation(house.oracle, "oracle", [True] * 8, render="none")
    assert "differ in render (bank exact, memoryless lite)" in make(house).html


def test_same_name_gets_its_parent(house, tmp_path):
    write_training(tmp_path / "other" / "bank", "bank", steps=40)
    page = make(house, house.memory, tmp_path / "other" / "bank")
    assert "other/bank" in page.html


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ({"memory": {"_target_": "robomem.policies.memory.bank.Bank"}}, "bank"),
        ({"memory": {"_target_": "robomem.policies.memory.none.NoMemory"}}, "none"),
        ({"memory": "gru"}, "gru"),
        ({"memory": None}, "none"),
        (None, "none"),
    ],
)
def test_memory_name(policy, name):
    assert memory_name(policy) == name


def test_command_line(house, capsys):
    options = ["--output", str(house.out), "--title", "Mine"]
    assert run(["report", str(house.memory), str(house.oracle), *options]) == 0
    assert str(house.out) in capsys.readouterr().out
    assert Page(house.out.read_text()).all("title")[0].text == "Mine"
    assert run(["report", str(house.out / "nowhere")]) == 1
    assert "is not a directory; name" in capsys.readouterr().err


def test_nan_in_the_metrics_breaks_the_line_only(house):
    path = house.memory / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 420, "loss": NaN, "lr": null}\n')
    page = make(house)
    assert not [e for e in page.all("path") if "nan" in e.attrs.get("d", "").lower()]
    assert any("nan" in e.text for e in page.all("td"))


def test_gradients_are_joined_by_module():
    joined = gradients_by_module(
        {"memory.a.weight": 3.0, "memory.a.bias": 4.0, "memory.b": 1.0, "memory.c.weight": 0.0}
    )
    assert joined == [("memory.a", 5.0), ("memory", 1.0), ("memory.c", 0.0)]


def test_episodes_beyond_the_summary_are_left_out(house):
    folder = house.memory / "eval" / ENV
    lines = (folder / "episodes.jsonl").read_text()
    write_evaluation(folder, "memory_vla", [True] * 3)
    (folder / "episodes.jsonl").write_text(lines)
    assert [e.seed for e in load_run(house.memory).evaluations[ENV].records] == [START, START + 1, START + 2]
