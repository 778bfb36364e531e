"""The parts of the training loop; `robomem.train` joins them."""
