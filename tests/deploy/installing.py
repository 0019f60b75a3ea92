"""Environments as a runtime has them: a wheel with what it requires, beside the runtime's Spark, Delta and Arrow, and no more."""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path

import pyspark

# What the extra `local` has of a runtime, and what each requires itself. Workers read records with NumPy, over Arrow.
SPARK = ("pyspark", "py4j", "delta", "importlib_metadata", "zipp")
ARROW = ("numpy", "pyarrow", "pandas", "dateutil", "python_dateutil", "pytz", "tzdata", "six")
OF_A_RUNTIME = SPARK + ARROW


def installed(wheels: Iterable[Path], folder: Path) -> Path:
    """The Python of a new environment in the folder; pip gets what the wheels require from the package index."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = ["install", "--quiet", "--disable-pip-version-check", *map(str, wheels)]
    done = subprocess.run([python, "-m", "pip", *install], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    runtime = folder / "runtime"
    runtime.mkdir()
    for name in OF_A_RUNTIME:
        for place in Path(pyspark.__file__).parents[1].glob(f"{name}*"):  # the package and its metadata
            (runtime / place.name).symlink_to(place)
    (site / "runtime.pth").write_text(f"{runtime}\n", encoding="utf-8")
    return python
