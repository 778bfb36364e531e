"""Files that are made from installed packages once per user and reused by every process."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from robomem.files import user_cache


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Folder `name` in the user's cache, filled by `make` if it is not there; safe with several processes at once."""
    folder = user_cache() / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    build = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        make(build)
        build.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise another process was first
            raise
    finally:
        shutil.rmtree(build, ignore_errors=True)
    return folder
