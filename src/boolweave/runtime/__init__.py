"""What a long computation needs of the machine: threads, memory, files, checkpoints and progress.

Nothing here knows what is computed. Start with `storage.py` and `checkpoint.py`.
"""
