"""Files and folders that nobody but the user of the process may read: they hold prompts, or digests of keys.

Only what is made here gets its mode here. What is there already keeps the mode that the operator has given it, and so
does everything under a stricter umask.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def make_folder(path: Path) -> None:
    """Makes a folder and what is missing above it, each for its owner alone; `Path.mkdir` leaves those above open.

    Raises:
        OSError: it cannot be made, or something that is no folder stands there.
    """
    for parent in (*reversed(path.parents), path):
        if not parent.exists():
            with suppress(FileExistsError):  # another process was first
                parent.mkdir(FOLDER_MODE)
    path.mkdir(FOLDER_MODE, exist_ok=True)  # raises for what is no folder


def make_file(path: Path) -> None:
    """Makes an empty file, for its owner alone; one that is there is left as it is.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
