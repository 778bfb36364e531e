"""Everything neural: encoders, memory modules, heads and their assembly into a policy."""
