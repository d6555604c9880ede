"""Effects of k and m on docs/reproduced.md: accuracy and removed samples beside the best other method."""

from __future__ import annotations

from markdown import Row, grouped, noise_words, table_head, table_line

from orat.cli.tables import TITLES

OTHER = "best other method"


def effects(runs: list[Row], rank: str) -> list[str]:
    """One table for every place of the paper, with the number of runs with ORAT ahead of all others."""
    lines = []
    places = grouped(runs, lambda run: (run["data"], run["eps"], run["noise"], run["rate"]))
    for (data, eps, noise, rate), group in places:
        ranked, others = ([run for run in group if (run["m"] is None) == other] for other in (False, True))
        columns = [name for name in TITLES if name in group[0]["accuracy"]["last"]]
        lines += ["", f"{data}, eps {eps}, {noise_words(noise, rate)}, last epoch:", ""]
        lines += table_head([rank, "removed", "with a wrong label", *(TITLES[name] for name in columns)])
        for run in ranked:
            counts = (run["outliers"][name] for name in ("cut", "flipped_and_cut"))
            lines.append(table_line([run[rank], *counts, *(f"{reached(run, name):.2f}" for name in columns)]))
        if others and ranked:
            best = {name: max(others, key=lambda run: reached(run, name)) for name in columns}
            figures = [f"{reached(run, name):.2f} ({run['method']})" for name, run in best.items()]
            ahead = [sum(reached(run, name) > reached(best[name], name) for run in ranked) for name in columns]
            lines.append(table_line([OTHER, "-", "-", *figures]))
            lines.append(table_line(["ORAT ahead in", "-", "-", *(f"{count} of {len(ranked)}" for count in ahead)]))
    return lines


def reached(run: Row, column: str) -> float:
    """Accuracy of the last epoch in %."""
    return 100 * float(run["accuracy"]["last"][column])
