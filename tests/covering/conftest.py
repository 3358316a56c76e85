"""The folder is on the path, so that its tests share the twins."""
