"""RoboMem: memory for vision-language-action policies.

The contract lives in `robomem.contract` and `robomem.spec`; the loops that drive a policy are `robomem.train`,
`robomem.rollout` and `robomem.evaluate`; the rooms are `robomem.policies`, `robomem.datasets`, `robomem.sim` and
`robomem.real`. Importing this package loads nothing heavy.
"""

import os

# Hugging Face's `datasets` would look for TensorFlow where it is kept out of a process that renders.
os.environ.setdefault("USE_TF", "0")

__version__ = "0.1.0"
