"""The paper's tables and figures: lists of cells, each a run, and the report of ours beside the paper's.

cells.py       a cell, and the choice of cells
artifacts.py   every table and figure as cells, from the paper's numbers in paper/*.csv
settings.py    cell, protocol, seed -> Run
reports.py     runs of other machines, read from their reports
every_epoch.py tests after every epoch
trials.py      trains and tests missing cells
outcomes.py    accuracies of finished runs
costs.py       estimates of time
comparison.py  ours beside the paper's
tables.py      tables for a terminal
overview.py    the list of all tables and figures
figures.py     pictures, drawn by line_, number_, rate_ and toy_figures.py with the parts of panels.py
"""
