"""Hydra values; the schemas they are checked against are in `robomem.config`."""
