"""The HTML page about a fitted model.

What the page shows is worked out in `contents.py` (factors), `completion.py` and `grid.py` (the
matrix) and written by `page.py` from the templates; inference and reading of files do not belong
here. Start with `page.py`.
"""

from boolweave.report.page import write_report

__all__ = ["write_report"]
