"""Django's own task tests, from its source distribution: downloaded once, checked by hash, kept outside the tree."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path


class NotAvailable(Exception):
    """The source distribution can neither be found nor downloaded."""


@dataclass(frozen=True)
class Sdist:
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"django-{self.version}.tar.gz"

    def download(self) -> Path:
        """The archive, from the cache folder where it is there already."""
        archive = cache_folder() / self.name
        if not archive.exists():
            download(self.version, archive.parent)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != self.sha256:
            raise RuntimeError(f"{archive} has the sha256 {found}, not {self.sha256}. Remove it and run again.")
        return archive

    def extract_tests(self, folder: Path) -> Path:
        """Put `tests/tasks` of the archive into `folder`."""
        inside = f"django-{self.version}/tests/tasks/"
        with tarfile.open(self.download()) as archive:
            members = [member for member in archive.getmembers() if member.name.startswith(inside)]
            archive.extractall(folder, members, filter="data")
        return folder / inside


SDISTS = {
    (6, 0): Sdist("6.0.10", "6005d030df924f85088454c18bd35dcf082b058aa355ad3df520d8de9aef9f41"),
    (6, 1): Sdist("6.1.3", "b5d2d9e35295065d13b1927b3f19a59bd119f737aa6299def14ccca1ae3c8c0d"),
}


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "django-tasks-retry"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def download(version: str, folder: Path) -> None:
    options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--ignore-requires-python", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"django=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or "pip failed").splitlines()[-1]
        raise NotAvailable(f"the source of Django {version} cannot be downloaded: {reason}")
