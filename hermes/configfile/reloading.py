"""What can be said of a configuration only where another one is in force already."""

from __future__ import annotations

from dataclasses import replace

from hermes.errors import ConfigurationInvalid, Problem
from hermes.policy import Policy, ServerPolicy


def fit_for_reload(new: Policy, running: Policy, bound: ServerPolicy | None) -> Policy:
    """The new policy, with a warning about what will not change before the next start.

    Args:
        bound: host and port that the server listens on; None where the environment has set them.

    Raises:
        ConfigurationInvalid: it would close the admin routes for good: a process gets no new environment, so nobody
            could reload again.
    """
    key_env = new.auth.admin_key_env
    if running.auth.admin_key is not None and new.auth.admin_key is None and key_env:
        sentence = f"{key_env} is not set in the server's environment: admin routes would be closed until a restart"
        raise ConfigurationInvalid(new.source, [Problem("auth.api_key_env", None, sentence)], new.warnings)
    if bound is None or (bound.host, bound.port) == (new.server.host, new.server.port):
        return new
    sentence = f"server.host and server.port count at the next start; the server goes on at {bound.host}:{bound.port}"
    return replace(new, warnings=(*new.warnings, f"{new.source}: {sentence}"))
