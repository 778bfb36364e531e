"""Memory modules: one file each, one protocol (`robomem.policies.memory.base`)."""
