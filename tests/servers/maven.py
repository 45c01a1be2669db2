"""Single files of Maven Central, for what is kept in the user's cache."""

import subprocess
from pathlib import Path

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def copied(artifact: str, directory: Path) -> Path:
    """The file of that artifact (group:name:version, and :type:classifier where there is one), now in `directory`,
    which has no other. CalledProcessError where it cannot be had.
    """
    maven = ["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", _COPY, f"-Dartifact={artifact}"]
    subprocess.run(
        [*maven, f"-DoutputDirectory={directory}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    (file,) = directory.iterdir()
    return file
