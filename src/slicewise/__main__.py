"""`python -m slicewise` is `slicewise`."""

import sys

from slicewise.cli.main import main

sys.exit(main())
