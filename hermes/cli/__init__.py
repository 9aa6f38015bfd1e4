"""The command line, `python -m hermes`: one module a command group. Prints, and calls what the server calls.

Nothing here imports the web framework or the event loop: the server is another process.
"""


def without_requirements(missing: ModuleNotFoundError) -> str:
    """What to tell somebody who has called the machine's own Python; nothing but Python is needed to say so."""
    return (
        f"This Python has no {missing.name}: Hermes's requirements are in .venv, which `make setup` makes. "
        "Call .venv/bin/python -m hermes instead, or `. .venv/bin/activate` first."
    )
