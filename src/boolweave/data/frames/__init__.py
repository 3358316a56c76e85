"""Results in the form of the input table: pandas, polars or Arrow.

This package turns positions and arrays into tables with names. Reading tables does not belong here;
that is in `boolweave.data.convert`. Start reading in `forms.py`.
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
