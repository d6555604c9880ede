"""The pickles of CIFAR's Python version, read by an unpickler that runs no code of the file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from orat.core.errors import InputError, line_of

# The errors on damaged bytes, of `pickle` by its documentation and of NumPy's arrays.
BROKEN = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


def load(file: Path) -> dict[bytes, Any]:
    """The dictionary in one pickle with its keys as bytes; a pickle that imports an unneeded name is refused."""
    try:
        with file.open("rb") as stream:
            content = DataOnly(stream, file).load()
    except InputError:
        raise
    except BROKEN as error:
        size = file.stat().st_size
        raise InputError(f"{file} is damaged, {size} bytes found ({line_of(error)}): get it again") from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} holds a {type(content).__name__}, not a dictionary: it is no CIFAR file")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


def latin1(text: str, encoding: str) -> bytes:
    """The replacement of `codecs.encode`, through which Python 3 writes bytes at protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


# NumPy has moved this private function before; the pickle form of an array holds it in every version.
RECONSTRUCT: Any = np.empty(0).__reduce__()[0]

ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): latin1,
}


class DataOnly(pickle.Unpickler):
    """An unpickler for arrays, bytes, numbers, lists and dictionaries only."""

    def __init__(self, stream: Any, file: Path) -> None:
        super().__init__(stream, encoding="bytes")
        self._file = file

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The object of an allowed name."""
        if (module_name, global_name) not in ALLOWED:
            asked = f"{module_name}.{global_name}"
            raise InputError(f"{self._file} asks for {asked!r}, which no CIFAR file needs: refused; get the file again")
        return ALLOWED[module_name, global_name]
