"""Infrastructure of long computations: threads, memory, files, checkpoints and progress.

Nothing in this package knows what is computed. What is computed belongs to other packages. Start
with `storage.py` and `checkpoint.py`.
"""
