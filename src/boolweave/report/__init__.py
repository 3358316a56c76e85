"""The HTML page about a fitted model.

The contents of the page are computed in `words.py` (the paragraph at the top), `contents.py`
(factors, reasons, charts) and `grid.py` (the matrix and lists of entries), and written by `page.py`
from the templates; `serving.py` serves the page with a slider that starts new fits.
Inference and reading of files do not belong here. Start with `page.py`.
"""

from boolweave.report.page import write_report

__all__ = ["write_report"]
