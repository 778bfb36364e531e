"""The physical arm: session, worker, governor, arms, cameras and wire."""
