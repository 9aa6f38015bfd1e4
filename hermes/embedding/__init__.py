"""Texts as vectors: the models that compute them here, and the thread that they run in."""
