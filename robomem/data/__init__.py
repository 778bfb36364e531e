"""`robomem data`: look at, check, convert and join recorded datasets."""
