"""Registration with Gymnasium, which finds it by an entry point: ``gymnasium.make("windward/Congestion-v0")``."""

from __future__ import annotations


def register() -> None:
    """Registers the environment. Gymnasium calls it while it is being imported."""
    from gymnasium.envs.registration import register

    register(id="windward/Congestion-v0", entry_point="windward.env:make")
