"""``python -m boolweave`` is the command `boolweave`."""

from boolweave.cli import main

main()
