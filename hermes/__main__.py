"""`python -m hermes`."""

import sys

from hermes.cli import without_requirements

try:
    from hermes.cli.main import main
except ModuleNotFoundError as missing:  # even what reads the command line
    sys.stderr.write(f"{without_requirements(missing)}\n")
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main())
