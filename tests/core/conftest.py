"""Lets the tests of the loops import `toy_env`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
