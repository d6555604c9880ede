"""Training methods, one a file; adding one is a file, a line here and a card in `orat/cards.py`."""

from orat.methods.aorr import AoRR
from orat.methods.at import AT
from orat.methods.base import Method, Scouts, Setting
from orat.methods.gairat import GAIRAT
from orat.methods.mail import MAIL
from orat.methods.mart import MART
from orat.methods.orat import ORAT
from orat.methods.raa import RAA
from orat.methods.st import ST
from orat.methods.trades import TRADES
from orat.methods.wmmr import WMMR

METHODS: dict[str, type[Method]] = {
    "st": ST, "at": AT, "trades": TRADES, "mart": MART, "gairat": GAIRAT, "mail": MAIL, "wmmr": WMMR, "raa": RAA,
    "aorr": AoRR, "orat": ORAT,
}  # fmt: skip
NAMES = {cls: name for name, cls in METHODS.items()}

__all__ = [
    "AT", "GAIRAT", "MAIL", "MART", "METHODS", "NAMES", "ORAT", "RAA", "ST", "TRADES", "WMMR", "AoRR", "Method",
    "Scouts",
    "Setting",
]  # fmt: skip
