"""The commands of `orat`, one a file: `add` declares the flags, `run` does the work.

Functions import what needs torch, so that help texts are quick.
"""
