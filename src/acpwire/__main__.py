"""`python -m acpwire` is the command `acpwire`. Owns: nothing."""

import sys

from acpwire.cli import main

sys.exit(main())
