"""AGENTS.md is short, and the code that it shows is the code that there is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "AGENTS.md").read_text()


def test_agents_file_is_short() -> None:
    assert len(TEXT.splitlines()) < 100


def test_shown_code_is_in_its_file() -> None:
    """Every line of a block, in order; the first one names the file."""
    blocks = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in blocks] == ["policies/memory/gru.py", "configs/memory/gru.yaml"]
    for name, block in blocks:
        lines = iter((ROOT / name).read_text().splitlines())
        for line in filter(None, block.splitlines()):
            assert line in lines, f"{name} has no (more) {line!r}"
