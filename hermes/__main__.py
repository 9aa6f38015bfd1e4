"""`python -m hermes`."""

import sys

from hermes.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
