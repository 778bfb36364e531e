"""Lite models of robots."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from robomem.sim.lite import lite_urdf


def meshes(urdf: Path) -> list[Path]:
    return [urdf.parent / mesh.attrib["filename"] for mesh in ET.parse(urdf).iterfind(".//mesh")]


def test_an_installation_that_is_removed_takes_no_meshes_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mani_skill

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    installed = Path(mani_skill.__file__).parent / "assets/robots/panda"
    first, second = (shutil.copytree(installed, tmp_path / name) for name in ("first", "second"))
    assert lite_urdf(first / "panda_v2.urdf") == lite_urdf(first / "panda_v2.urdf")
    shutil.rmtree(first)
    found = meshes(lite_urdf(second / "panda_v2.urdf"))
    assert found
    assert all(path.exists() for path in found)
