"""Measurements of whether and how a policy uses its memory; `robomem.audit` joins them."""
