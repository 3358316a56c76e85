"""The HTML page about a fitted model.

What the page shows is worked out in `words.py` (the paragraph on top), `contents.py` (factors),
`completion.py`, `cover.py`, `entries.py` (lists) and `grid.py` (the matrix), and written by
`page.py` from the templates; `serving.py` shows it with a slider that fits again. Inference and
reading of files do not belong here. Start with `page.py`.
"""

from boolweave.report.page import write_report

__all__ = ["write_report"]
