"""The dry run: what `causeway run` would mirror, create and change."""
