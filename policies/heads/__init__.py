"""Action heads: working tokens become an action chunk."""
