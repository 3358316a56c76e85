"""Tables as people have them: columns of any kind, encoded as they are read, and written back.

What a table with categories, numbers and dates needs beyond one of zeros and ones belongs here; how
a column is encoded does not (`boolweave.encoding`). Start with `encoded.py`.
"""
