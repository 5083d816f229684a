"""Results of earlier scans: a check is made again only where something that it depends on has changed.

What a result depends on: the check itself, this masquerade, the subject's interpreter with its packages, the variables
of the environment (together the key), and what the check read: the content of each file and the names in each folder.
"""

from masquerade.remembered.memory import Memory, open_memory

__all__ = ["Memory", "open_memory"]
