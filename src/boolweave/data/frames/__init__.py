"""Answers in the form of the table that was asked about: pandas, polars or Arrow.

What turns positions and arrays into tables with names belongs here, for whoever answers; reading
tables does not, that is in `boolweave.data.convert`. Start reading in `forms.py`.
"""

from boolweave.data.frames.forms import (
    COLUMNS_SHOWN,
    ROWS_SHOWN,
    Frame,
    html_table,
    is_matrix,
    like,
    names_of,
    only_row,
    polars_table,
)

__all__ = [
    "COLUMNS_SHOWN",
    "ROWS_SHOWN",
    "Frame",
    "html_table",
    "is_matrix",
    "like",
    "names_of",
    "only_row",
    "polars_table",
]
