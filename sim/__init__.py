"""ManiSkill simulation: environments, the MIKASA-Robo-VLA benchmark, oracles and collection."""
