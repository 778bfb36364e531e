"""Benchmarks of speed; a module for each, imported only when it runs."""
