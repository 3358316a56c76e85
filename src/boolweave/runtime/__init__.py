"""Infrastructure of long computations: threads, memory, files, checkpoints and progress.

This package does not depend on the kind of computation. Start with `storage.py` and
`checkpoint.py`.
"""
