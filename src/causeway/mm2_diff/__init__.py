"""A MirrorMaker 2 file as MirrorMaker 2 would read it, beside Causeway, for people who switch."""
