"""The folder is on the path, so that its tests share small ensembles and slow twins."""
