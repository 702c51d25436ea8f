"""Jars of the servers and connectors that the ring of stores starts: pinned, fetched once by Maven, checked.

``python -m tests.stores.jars [USE …]`` fetches what requirements/jars.txt pins, all or of these uses; without
Maven it says so. With ``--if-reachable`` it also says so where the registry is away, instead of failing.
They lie in ``~/.cache/spark-eval/jars``, or where SPARK_EVAL_JARS says; only this ring needs them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

PINS: Final = Path(__file__).parents[2] / "requirements" / "jars.txt"
CACHE: Final = Path(
    os.environ.get("SPARK_EVAL_JARS")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "spark-eval", "jars")
)
MOST_SECONDS: Final = 600
NO_MAVEN: Final = "no mvn here to fetch jars with; 'apt-get install maven'"


class Jar(NamedTuple):
    """A pinned jar: what it is for, its coordinates, its SHA-256."""

    use: str
    coordinates: str
    sha256: str

    @property
    def path(self) -> Path:
        """Path of the jar in the cache."""
        _, artifact, version = self.coordinates.split(":")
        return CACHE / f"{artifact}-{version}.jar"

    @property
    def is_there(self) -> bool:
        """True if the cache has exactly the pinned bytes."""
        return self.path.exists() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256

    def dependency(self) -> str:
        """Return the jar alone as a dependency of a Maven project."""
        names = ("groupId", "artifactId", "version")
        values = zip(names, self.coordinates.split(":"), strict=True)
        return f"<dependency>{''.join(f'<{name}>{value}</{name}>' for name, value in values)}</dependency>"


def pinned(use: str | None = None) -> list[Jar]:
    """Return the pinned jars, all or those of one use."""
    lines = [line.split() for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return [jar for jar in (Jar(*line) for line in lines) if use in (None, jar.use)]


def missing(use: str | None = None) -> list[Jar]:
    """Return the pinned jars that the cache lacks."""
    return [jar for jar in pinned(use) if not jar.is_there]


def fetch(jars: list[Jar]) -> None:
    """Fetch jars into the cache by one call of Maven; raise SystemExit if one is not what is pinned."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        names = "<modelVersion>4.0.0</modelVersion><groupId>ring</groupId><artifactId>stores</artifactId>"
        wanted = "".join(jar.dependency() for jar in jars)
        Path(folder, "pom.xml").write_text(
            f"<project>{names}<version>1</version><dependencies>{wanted}</dependencies></project>"
        )
        copy = ["dependency:copy-dependencies", "-DexcludeTransitive=true", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "-q", "-B", *copy], cwd=folder, check=True, timeout=MOST_SECONDS)
        for jar in jars:
            shutil.move(Path(folder, jar.path.name), jar.path)
    if wrong := [jar.coordinates for jar in jars if not jar.is_there]:
        sys.exit(f"not the SHA-256 that requirements/jars.txt pins: {', '.join(wrong)}")


def main(words: list[str]) -> int:
    """Fetch what is lacking; return the exit code, with ``--if-reachable`` 0 where the registry is away."""
    uses = [word for word in words if not word.startswith("--")]
    lacking = [jar for jar in missing() if not uses or jar.use in uses]
    if not lacking:
        return 0
    if shutil.which("mvn") is None:
        print(f"Skipped: {NO_MAVEN}.", file=sys.stderr)
        return 0
    print(f"Fetching {len(lacking)} jars that requirements/jars.txt pins into {CACHE}.", flush=True)
    try:
        fetch(lacking)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"Skipped: mvn did not fetch {len(lacking)} jars ({type(error).__name__}).", file=sys.stderr)
        return 0 if "--if-reachable" in words else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
