"""`python -m orat`, for where the command is not on the path."""

import sys

from orat.cli.main import main

sys.exit(main())
