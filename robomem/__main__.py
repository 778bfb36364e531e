"""`python -m robomem` is `robomem`."""

from robomem.cli import main

main()
