"""router_config.yaml to a checked `Policy`, or all its problems at once, each with file, line and path.

    text --tree--> dicts with lines --checking/schema--> Root --build (tiers, endpoints, keys)--> Policy
                                                              `--document--> what operators are shown

Every stage adds to the same `Findings`, and none stops at the first fault; only what is not YAML ends at once. Nothing
here keeps or logs anything, and no sentence holds a value out of the environment or the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hermes.configfile.build import policy_of
from hermes.configfile.checking import checked
from hermes.configfile.findings import Findings
from hermes.configfile.keys import Environment
from hermes.configfile.tree import MAX_BYTES, read
from hermes.errors import ConfigurationInvalid, Problem
from hermes.policy import Policy

__all__ = ["load", "parse"]


def load(path: Path, environ: Mapping[str, str]) -> Policy:
    """Reads a configuration file.

    Blocks:
        for the file's size: about 10 ms for 100 lines.

    Raises:
        ConfigurationInvalid: it is missing, cannot be read, is not UTF-8, or has problems; the list holds all of them.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(path, "does not exist: copy router_config.example.yaml, or set HERMES_CONFIG") from None
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or 'input/output error'}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # a character cut at the limit is the limit's fault
        if len(content) > MAX_BYTES:
            raise _unreadable(path, f"is larger than {MAX_BYTES // 1024} KiB") from None
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationInvalid(str(path), [Problem("", line, "is not UTF-8 text")]) from None
    return parse(text, str(path), environ)


def parse(text: str, file: str, environ: Mapping[str, str]) -> Policy:
    """The policy that a configuration's text describes.

    Args:
        text: YAML.
        file: its name, for messages.
        environ: where the secrets are that the text names.

    Raises:
        ConfigurationInvalid: with every problem, in the order of the lines.
    """
    tree = read(text, file)
    if tree.values is None:
        raise ConfigurationInvalid(
            file, [Problem("", None, "is empty: router_config.example.yaml shows what it may hold")]
        )
    if not isinstance(tree.values, dict):
        raise ConfigurationInvalid(file, [Problem("", 1, "must hold sections such as `models:`, not a list or a word")])
    findings = Findings(file, tree.lines, tree.problems)
    policy = policy_of(checked(tree.values, findings), findings, Environment(environ, findings))
    findings.raise_if_any()
    return policy


def _unreadable(path: Path, sentence: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(str(path), [Problem("", None, sentence)])
