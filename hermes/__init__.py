"""Hermes: a self-hosted AI gateway and LLM router. `docs/architecture.md` is the map of this package."""

__version__ = "0.1.0"
