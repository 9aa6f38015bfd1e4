"""What the benchmarks share: native tools, pinned processes, the servers that are compared.

A benchmark finds this package beside itself. From here on it also finds the project.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
