"""Everyday tables: columns of any kind, which are encoded when they are read, and written back.

This package holds what a table with categories, numbers and dates needs in addition to a table of
zeros and ones. How a column is encoded belongs to `boolweave.encoding`. Start with `encoded.py`.
"""
