"""The house: links, arrows between rooms, budgets, and what must never appear."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("policies", "datasets", "configs", "sim", "real")
CONTRACT = ("contract", "environment", "episode", "errors", "factory", "files", "spec", "statistics")
MOST_LINES_OF_FILE = 400
MOST_LINES_OF_FUNCTION = 50
UNSAFE = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "torch.save", "yaml.load", "yaml.unsafe_load"}

SOURCES = sorted(
    path
    for folder in ("robomem", *ROOMS, "tests")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)
TREES = {path: ast.parse(path.read_text()) for path in SOURCES}
CODE = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"]


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def nodes_run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those inside functions and `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from nodes_run_at_import(child)


def imported(node: ast.AST) -> list[str]:
    """Dotted names that an import statement brings, `from a import b` counted as `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def test_there_is_code_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} >= {"robomem", "sim", "policies", "datasets", "tests"}


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_linked_relatively(room: str) -> None:
    link = ROOT / "robomem" / room
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{room}"


def test_datasets_and_tests_are_no_packages() -> None:
    assert not [path for path in SOURCES if path.name == "__init__.py" and path.parent.name in ("datasets", "tests")]
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_import_datasets_from_the_root_is_hugging_face() -> None:
    code = "import importlib.util; print(importlib.util.find_spec('datasets').origin)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "site-packages/datasets/__init__.py" in found


def test_no_code_imports_a_bare_room_name() -> None:
    """Only a test that means Hugging Face's `datasets` may say so."""
    bare = []
    for path, tree in TREES.items():
        banned = {*ROOMS} if path in CODE else {*ROOMS} - {"datasets"}
        names = ((node, name.split(".")[0]) for node in ast.walk(tree) for name in imported(node))
        bare += [where(path, node) for node, name in names if name in banned]
    assert not bare


def test_rooms_import_only_themselves_and_the_contract() -> None:
    strays = []
    for path in CODE:
        room = path.relative_to(ROOT).parts[0]
        for node in ast.walk(TREES[path]) if room in ROOMS else ():
            targets = {name.split(".")[1] for name in imported(node) if name.startswith("robomem.")}
            strays += [f"{where(path, node)} imports {target}" for target in targets - {room, *CONTRACT}]
    assert not strays


def test_core_imports_no_room_at_import_time() -> None:
    """All but a room's `config`, which is light and part of the programs' schemas."""
    eager = [
        f"{where(path, node)} imports {name}"
        for path in CODE
        if path.relative_to(ROOT).parts[0] == "robomem"
        for node in nodes_run_at_import(TREES[path])
        for name in imported(node)
        if re.match(rf"robomem\.({'|'.join(ROOMS)})\b(?!\.config\.)", name)
    ]
    assert not eager


def test_contract_imports_only_the_contract() -> None:
    strays = [
        f"{where(path, node)} imports {name}"
        for path in (ROOT / "robomem" / f"{module}.py" for module in CONTRACT)
        for node in ast.walk(TREES[path])
        for name in imported(node)
        if name.startswith("robomem.") and name.split(".")[1] not in CONTRACT
    ]
    assert not strays


def test_files_are_small() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES_OF_FILE}


def test_functions_are_small() -> None:
    long = [
        f"{where(path, node)} {node.name} has {lines} lines"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_OF_FUNCTION
    ]
    assert not long


def test_nothing_runs_data_as_code() -> None:
    unsafe = [
        where(path, node)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if {name.split(".")[0] for name in imported(node)} & UNSAFE
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in UNSAFE_CALLS)
    ]
    assert not unsafe


def test_lock_has_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.findall(r"https?://\S+|--index-url", lock)
    pins = re.findall(r"^[a-z0-9].*==.*$", lock, flags=re.MULTILINE)
    assert len(pins) > 100
    assert all(pin.endswith("\\") for pin in pins), "a pin without hashes"


def test_command_line_starts_without_heavy_imports() -> None:
    code = "import sys; from robomem.cli import run; status = run(['--help']); print(*sys.modules); sys.exit(status)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in result.stdout.splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & {"torch", "numpy", "hydra", "omegaconf", "lerobot", "sapien", "mani_skill", "tensorflow", "av"}
