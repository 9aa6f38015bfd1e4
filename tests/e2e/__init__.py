"""Hermes as its users meet it: a real gunicorn, real sockets, and providers that misbehave on purpose."""
