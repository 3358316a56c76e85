"""``python -m boolweave`` is the command `boolweave`."""

from boolweave.cli import main

if __name__ == "__main__":  # workers of a local cluster import this module, too
    main()
