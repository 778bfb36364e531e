"""Encoders: an observation becomes working tokens."""
