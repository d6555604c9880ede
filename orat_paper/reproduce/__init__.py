"""The paper's tables and figures as lists of cells, each of them a run, and the report that joins both.

cells.py       what a cell is, and which are chosen
artifacts.py   every table and figure as cells, from the paper's numbers in paper/*.csv
settings.py    cell, protocol, seed -> Run
every_epoch.py runs that are tested after each epoch, or never given up
outcomes.py    what finished runs say of a cell
carrying_out.py runs what is missing
costs.py       how long that takes
joining.py     ours beside theirs
showing.py     tables for a terminal
figures.py     the picture of each, drawn from the join and its runs by line_, number_ and toy_figures.py
panels.py      what pictures share
"""
