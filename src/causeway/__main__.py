"""`python -m causeway` is `causeway`."""

from causeway.cli.main import main

main()
