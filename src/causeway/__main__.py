"""`python -m causeway` is `causeway`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    # A file there must not take the place of a library: the script `causeway` does not see it.
    del sys.path[0]

from causeway.cli.main import main

main()
