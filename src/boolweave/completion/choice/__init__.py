"""The choice of a model: trials on held-out entries, and the blend of the best models.

How a model is fitted does not belong here but to `completion.runs`. Blending is in `blending`.
Start reading in `selection`.
"""
