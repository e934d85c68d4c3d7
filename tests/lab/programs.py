"""The programs of the lab: PostgreSQL from its wheel, Patroni from PyPI, etcd and HAProxy from Debian's packages.

Debian's packages are unpacked, not installed, so that no service starts and the system stays as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.pg import installation

DEBIAN = ("etcd-server", "haproxy", "liblua5.3-0", "libopentracing1", "libopentracing-c-wrapper0")
PYPI = ("patroni[etcd3]", "psycopg[binary]")
TOOLS = ("ip", "bridge", "setpriv", "unshare", "apt-get", "dpkg-deb")


class Missing(Exception):
    """The lab cannot be built here; the message says why."""


def why_not() -> str | None:
    """Why there can be no lab on this machine, if so."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "it makes network namespaces, which takes root on Linux"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"it needs {', '.join(absent)} (Debian: iproute2, util-linux, dpkg)"
    probe = ["unshare", "--mount", "--net", "--pid", "--fork", "ip", "link", "add", "br0", "type", "bridge"]
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        return "this system allows no network namespaces with a bridge"
    return None if open_python() else "PostgreSQL does not run as root, and no Python is open to other users"


def open_python() -> str | None:
    """A Python of our own version that a server's user may run."""
    ours = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for found in (ours, Path("/usr/bin") / version, Path("/usr/local/bin") / version):
        if found.exists() and all(parent.stat().st_mode & 0o001 for parent in found.resolve().parents):
            return str(found)
    return None


@dataclass(frozen=True)
class Programs:
    folder: Path

    @property
    def python(self) -> str:
        return open_python() or sys.executable

    @property
    def postgresql(self) -> Path:
        return self.folder / "postgresql" / installation("16").name / "bin"

    @property
    def etcd(self) -> Path:
        return self.folder / "debian/usr/bin/etcd"

    @property
    def haproxy(self) -> Path:
        return self.folder / "debian/usr/sbin/haproxy"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.folder / "debian/usr/lib/x86_64-linux-gnu"),
            "PYTHONPATH": str(self.folder / "python"),
            "LANG": "C",
        }

    def fetch(self) -> None:
        """Everything that is not there yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name, make in (("python", self.fetch_python), ("debian", self.fetch_debian), ("postgresql", self.copy)):
            if not (self.folder / f"{name}.ready").exists():
                shutil.rmtree(self.folder / name, ignore_errors=True)
                try:
                    make()
                except (OSError, subprocess.CalledProcessError) as error:
                    raise Missing(f"{name}: {error}") from error
                (self.folder / f"{name}.ready").touch()

    def fetch_python(self) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(self.folder / "python"), *PYPI], check=True, stderr=subprocess.DEVNULL)

    def fetch_debian(self) -> None:
        packages = self.folder / "debian" / "packages"
        packages.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "-q", *DEBIAN], cwd=packages, check=True, capture_output=True)
        for package in packages.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(self.folder / "debian")], check=True)

    def copy(self) -> None:
        """The wheel may lie where only we can read; its programs find their libraries beside the package."""
        found = installation("16")
        shutil.copytree(found, self.folder / "postgresql" / found.name, symlinks=True)
        for libraries in found.parent.parent.glob(f"{found.parent.name}.libs"):
            shutil.copytree(libraries, self.folder / libraries.name, symlinks=True)
