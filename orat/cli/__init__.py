"""The commands of `orat`, one a file: `add` declares the flags, `run` does the work.

Modules that need torch are imported inside functions, so that help texts are quick.
"""
