"""Training methods, one a file; adding one is a file and a line here."""

from orat.methods.aorr import AoRR
from orat.methods.at import AT
from orat.methods.method import Method, Setting, TrainingAttack
from orat.methods.orat import ORAT
from orat.methods.st import ST

METHODS: dict[str, type[Method]] = {"st": ST, "at": AT, "aorr": AoRR, "orat": ORAT}
NAMES = {cls: name for name, cls in METHODS.items()}

__all__ = ["AT", "METHODS", "NAMES", "ORAT", "ST", "AoRR", "Method", "Setting", "TrainingAttack"]
