"""What lies in a folder."""

from __future__ import annotations

from pathlib import Path


def names(folder: Path) -> list[str]:
    """Names of files and folders, sorted."""
    return sorted(p.name for p in folder.iterdir())
