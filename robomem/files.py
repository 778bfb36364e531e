"""Durable files: a write is either wholly there or not at all, also after `kill -9` or a power failure."""

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from robomem.errors import RobomemError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_atomic(path: Path, data: bytes, verify: Callable[[Path], None] | None = None) -> None:
    """Replace a file durably.

    Args:
        path: The file; its folder is made if it is missing.
        data: The new content.
        verify: Called with the temporary file before it takes the place of `path`; raises to refuse it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if verify:
            verify(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file durably."""
    write_atomic(path, json.dumps(value, indent=2).encode())


def read_json(path: Path) -> Any:
    """The value of a JSON file.

    Raises:
        RobomemError: the file is missing or damaged.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RobomemError(f"{path} is missing; copy the folder again as a whole, or use another") from error
    except ValueError as error:
        raise RobomemError(f"{path} is damaged ({error}); copy it again, or use another") from error


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill; it takes its place durably if the block ends without an error, and is removed otherwise.

    Raises:
        FileExistsError: there is something at `path`.
    """
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = path.with_name(path.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for entry in (*temporary.rglob("*"), temporary):
            sync(entry)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def user_cache() -> Path:
    """Folder of what can be made again, the same for all of a user's processes."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "robomem"


def acquire(path: Path, busy: str) -> FileLock:
    """Take a lock file, whose folder is made if it is missing; the caller releases it.

    Raises:
        RobomemError: another process has it; `busy` says what that means.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RobomemError(busy) from error
    return lock


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file through the block; see `acquire`."""
    lock = acquire(path, busy)
    try:
        yield
    finally:
        lock.release()


def exchange_folders(a: Path, b: Path) -> bool:
    """Swap two folders of one file system in a single step.

    Returns:
        False if the system or the file system cannot; nothing has changed then.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0:
        for folder in {a.parent, b.parent}:
            sync(folder)
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(code, os.strerror(code), str(a))


@contextmanager
def disk_guard(root: Path, unsaved: str) -> Iterator[None]:
    """Turn a full or forbidden disk into a message; `unsaved` says what was not written."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            fix = "all that was saved before is intact. Free some space, then run the same command again"
        elif error.errno in _FORBIDDEN:
            fix = "give another folder or permission to write there"
        else:
            raise
        raise RobomemError(f"cannot write {root} ({error.strerror}): {unsaved}; {fix}") from error
