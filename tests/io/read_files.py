"""What readers make of a file: a table, or an error."""

import pytest

from boolweave import io
from boolweave.io import FileError


def table(path, **options):
    """The matrix in a file, with NaN where nothing was observed."""
    return io.read(path, **options).observations.to_dense()


def message(path, **options):
    """The error of a file: one line that begins with its name."""
    with pytest.raises(FileError) as caught:
        io.read(path, **options)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text
