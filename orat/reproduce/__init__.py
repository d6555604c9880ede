"""The paper's tables and figures as lists of cells, each of them a run, and the report that joins both.

cells.py       what a cell is, and which are chosen
artifacts.py   every table and figure as cells, from the paper's numbers in paper/*.csv
settings.py    cell, protocol, seed -> Run
every_epoch.py a run that is tested after each epoch
outcomes.py    what finished runs say of a cell
carrying_out.py runs what is missing
costs.py       how long that takes
joining.py     ours beside theirs
showing.py     tables for a terminal

Pictures belong in a further file, which draws from `joining.content`.
"""
