"""How the configuration file becomes the policy in force, and what an operator is told of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace

import gevent

from hermes import configfile
from hermes.admission.keys import SECRET_FILE
from hermes.demo import DemoServer, demo_config
from hermes.errors import ConfigurationInvalid
from hermes.policy import Policy
from hermes.routing.surrogates import Surrogates
from hermes.settings import Settings, remarks

log = logging.getLogger("hermes-router")


def read_policy(settings: Settings, demo: DemoServer | None) -> Policy:
    """The policy of the configuration file; the demo's, where the demo was asked for or there is no file yet.

    Raises:
        ConfigurationInvalid: with every problem.
    """
    path = settings.config_path()
    if demo is not None and (settings.demo or not path.exists()):
        return configfile.parse(demo_config(demo.base_url), "demo", os.environ)
    return configfile.load(path, os.environ)


def warn(policy: Policy, settings: Settings) -> None:
    """Logs what an operator had better look at."""
    for warning in (*policy.warnings, *remarks(os.environ)):
        log.warning("%s", warning)
    if not settings.secret and settings.sqlite_path() is None:
        secret_file = settings.data_folder() / SECRET_FILE
        log.warning("API keys are checked with the file %s: on several machines set HERMES_SECRET alike", secret_file)


def with_surrogate(policy: Policy, surrogates: Surrogates) -> Policy:
    """The policy, its surrogate loaded; what is wrong with that one joins the warnings.

    Blocks: 0.1 s for a surrogate that is new.
    """
    warning = surrogates.prepare(policy.routing.surrogate)
    return replace(policy, warnings=(*policy.warnings, warning)) if warning else policy


def off_the_loop(read: Callable[[], Policy]) -> Policy:
    """Parses in a native thread: a large file takes longer than streams should wait. It takes no lock there."""

    def outcome() -> Policy | ConfigurationInvalid:
        try:
            return read()
        except ConfigurationInvalid as invalid:
            return invalid  # as a value: gevent prints what leaves a thread as an exception

    found: Policy | ConfigurationInvalid = gevent.get_hub().threadpool.apply(outcome)
    if isinstance(found, ConfigurationInvalid):
        raise found
    return found
