"""Building objects from configuration, within an allow-list."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from robomem.errors import RobomemError
from robomem.factory import instantiate

NAN = math.nan
PACKAGE = "parts_of_test_factory"
FILES = {
    "__init__.py": "",
    "boxes.py": """
import os
from pathlib import Path

class Box:
    def __init__(self, width: int, height: float = 1.0, *, content=None, closed: bool = False):
        if width > 1000:
            raise ValueError("too wide\\nfor any door")
        self.width, self.height, self.content, self.closed = width, height, content, closed

def make_box(**sizes):
    return Box(**sizes)

limit = 3
""",
    "bags.py": "import no_such_package_at_all\n",
    "bolts/__init__.py": "",
    "bolts/hex.py": "class Hex:\n    pass\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        monkeypatch.delitem(sys.modules, name)


def build(target: str, _prefix: str = f"{PACKAGE}.", **values: Any) -> Any:
    return instantiate({"_target_": _prefix + target, **values}, allow=PACKAGE)


def test_nested_mappings_are_built() -> None:
    inner = {"_target_": f"{PACKAGE}.bolts.hex.Hex"}
    box = build("boxes.Box", width=2, content={"plain": [1, inner], "bolt": inner})
    assert (box.width, box.height) == (2, 1)
    assert box.content["plain"][0] == 1
    assert type(box.content["plain"][1]).__name__ == type(box.content["bolt"]).__name__ == "Hex"


def test_partial_waits_for_the_missing_arguments() -> None:
    box = build("boxes.Box", content={"_target_": f"{PACKAGE}.boxes.Box", "_partial_": True, "height": 3}, width=2)
    assert (box.content(width=4).width, box.content(width=4).height) == (4, 3)
    with pytest.raises(RobomemError, match="has no argument 'hieght'; did you mean 'height'"):
        build("boxes.Box", _partial_=True, hieght=2)


def test_extra_arguments_are_passed_as_they_are() -> None:
    extra = {"_target_": "not built"}
    config = {"_target_": f"{PACKAGE}.boxes.Box", "width": 1}
    assert instantiate(config, allow=PACKAGE, content=extra).content is extra
    with pytest.raises(RobomemError, match="width follows from other settings"):
        instantiate(config, allow=PACKAGE, width=2)


@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        ("boxes.Bax", {"width": 1}, "has no class 'Bax'; did you mean 'Box'?"),
        ("boxs.Box", {"width": 1}, f"{PACKAGE} has no 'boxs'; did you mean 'boxes'?"),
        ("bolts.hax.Hex", {}, r"bolts has no 'hax'; did you mean 'hex'?"),
        ("boxes.Box", {"width": 1, "hieght": 2}, "has no argument 'hieght'; did you mean 'height'?"),
        ("boxes.Box", {}, "needs a value for width"),
        ("boxes.limit", {}, "has no class 'limit'"),
        ("boxes.Path", {}, "has no class 'Path'"),
        ("boxes.make_box", {"width": 5}, "boxes has no class 'make_box'"),
        ("boxes.os.system", {}, "there is no"),
        ("bags.Bag", {}, "needs the Python package 'no_such_package_at_all'"),
    ],
)
def test_mistake_names_the_nearest(target: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RobomemError) as caught:
        build(target, **values)
    assert message in str(caught.value)


@pytest.mark.parametrize("part", [{}, {"_partial_": True}], ids=["whole", "partial"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(({"width": value}, f"width={value} must be a whole number from 1 up") for value in (0, -3, 1.5, "abc", True)),
        ({"width": None}, "width=None must be a whole number from 1 up"),
        *(({"height": value}, f"height={value} must be a number from 0 up") for value in (-0.1, NAN, math.inf, "x")),
        ({"closed": 1}, "closed=1 must be true or false"),
    ],
)
def test_value_of_another_kind_is_refused(values: dict[str, Any], message: str, part: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"width": 1, **values, **part}
    with pytest.raises(RobomemError) as caught:
        build("boxes.Box", **settings)
    assert str(caught.value) == f"{PACKAGE}.boxes.Box: {message}"


def test_settings_that_the_class_refuses_are_named() -> None:
    with pytest.raises(RobomemError, match=r"boxes\.Box cannot be built with width=2000 \(too wide\); choose others"):
        build("boxes.Box", width=2000)
    make = build("boxes.Box", width=2000, _partial_=True)
    with pytest.raises(RobomemError, match=r"boxes\.Box cannot be built with width=2000"):
        make()
    with pytest.raises(RobomemError, match="has no _target_"):
        instantiate(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "target", ["os.system", "builtins.eval", PACKAGE, f"{PACKAGE}x.boxes.Box", f"{PACKAGE}..boxes.Box", ""]
)
def test_target_outside_the_allow_list_is_refused(target: str) -> None:
    with pytest.raises(RobomemError, match=f"is not within {PACKAGE}"):
        build(target, _prefix="")


def test_configuration_without_target_is_refused() -> None:
    with pytest.raises(RobomemError, match="has no _target_"):
        instantiate({"width": 1})
